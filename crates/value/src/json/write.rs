//! The writer: BSON to text.
//!
//! The most common types are written directly from their raw bytes, the others through [`Value`].

use super::couch::UNDERSCORED;
use super::scan::plain_length;
use crate::element::{RawValue, Type};
use crate::view::{Doc, Value};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::Write;

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every type is preserved.
    Canonical,
    /// Numbers, and dates of the years 1970 to 9999, are written as in plain JSON.
    Relaxed,
    /// Like relaxed, but integers that a JavaScript client would round keep their type.
    Exchange,
}

/// The last millisecond of the year 9999. Later dates are written as numbers.
const LAST_DATE: i64 = 253_402_300_799_999;

/// The largest integer below which JavaScript's numbers are exact.
const SAFE_INTEGER: u64 = 1 << 53;

/// Appends a document as one line of JSON without spaces.
pub fn write_document(out: &mut Vec<u8>, doc: Doc<'_>, mode: Mode) {
    out.push(b'{');
    for element in doc {
        begin_member(out);
        member(out, element.key, element.raw, mode);
    }
    out.push(b'}');
}

/// Appends a value.
pub fn write_value(out: &mut Vec<u8>, value: Value<'_>, mode: Mode) {
    let plain = mode != Mode::Canonical;
    match value {
        Value::Double(number) if plain && number.is_finite() => {
            out.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes());
        }
        Value::Double(number) => {
            let mut buffer = zmij::Buffer::new();
            let text = match number {
                _ if number.is_finite() => buffer.format_finite(number),
                _ if number.is_nan() => "NaN",
                _ if number > 0.0 => "Infinity",
                _ => "-Infinity",
            };
            wrapped(out, "$numberDouble", text);
        }
        Value::Int32(number) if plain => integer(out, number.into()),
        Value::Int32(number) => wrapped(out, "$numberInt", itoa::Buffer::new().format(number)),
        Value::Int64(number) if mode == Mode::Relaxed || (plain && number.unsigned_abs() <= SAFE_INTEGER) => {
            integer(out, number);
        }
        Value::Int64(number) => wrapped(out, "$numberLong", itoa::Buffer::new().format(number)),
        Value::Decimal128(number) => wrapped(out, "$numberDecimal", &number.to_string()),
        Value::String(text) => write_string(out, text),
        Value::Document(doc) => write_document(out, doc, mode),
        Value::Array(array) => {
            out.push(b'[');
            for (index, element) in array.elements().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                raw(out, element.raw, mode);
            }
            out.push(b']');
        }
        Value::Binary { subtype, bytes } => {
            // The old subtype 2 repeats its length inside; the content follows it.
            let content = if subtype == 2 { bytes.get(4..).unwrap_or_default() } else { bytes };
            let content = STANDARD.encode(content);
            format(out, format_args!(r#"{{"$binary":{{"base64":"{content}","subType":"{subtype:02x}"}}}}"#));
        }
        Value::Undefined => out.extend_from_slice(br#"{"$undefined":true}"#),
        Value::ObjectId(id) => format(out, format_args!(r#"{{"$oid":"{id}"}}"#)),
        Value::Boolean(flag) => out.extend_from_slice(if flag { b"true" } else { b"false" }),
        Value::DateTime(millis) => date(out, millis, plain),
        Value::Null => out.extend_from_slice(b"null"),
        Value::Regex { pattern, options } => {
            out.extend_from_slice(br#"{"$regularExpression":{"pattern":"#);
            write_string(out, pattern);
            out.extend_from_slice(br#","options":"#);
            write_string(out, options);
            out.extend_from_slice(b"}}");
        }
        Value::DbPointer { namespace, id } => {
            out.extend_from_slice(br#"{"$dbPointer":{"$ref":"#);
            write_string(out, namespace);
            format(out, format_args!(r#","$id":{{"$oid":"{id}"}}}}}}"#));
        }
        Value::JavaScript(code) => wrapped(out, "$code", code),
        Value::Symbol(text) => wrapped(out, "$symbol", text),
        Value::JavaScriptWithScope { code, scope } => {
            out.extend_from_slice(br#"{"$code":"#);
            write_string(out, code);
            out.extend_from_slice(br#","$scope":"#);
            write_document(out, scope, mode);
            out.push(b'}');
        }
        Value::Timestamp(timestamp) => format(
            out,
            format_args!(r#"{{"$timestamp":{{"t":{},"i":{}}}}}"#, timestamp.seconds, timestamp.increment),
        ),
        Value::MinKey => out.extend_from_slice(br#"{"$minKey":1}"#),
        Value::MaxKey => out.extend_from_slice(br#"{"$maxKey":1}"#),
    }
}

/// Appends a string with its quotes.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    string(out, text.as_bytes());
}

/// Appends all members of a document except `_id`, with the names that HTTP clients see: a field `_class` becomes the
/// member `$_class`, and `$_rev`, which no stored document has, becomes the member `_rev`. Each member is preceded by a
/// comma, unless `out` ends with the opening brace of the object.
pub fn write_couch_members(out: &mut Vec<u8>, doc: Doc<'_>) {
    write_couch_members_as(out, doc, Mode::Exchange);
}

/// The same in another mode. For peers that keep integers of any size, [`Mode::Relaxed`] writes all of them as digits.
pub fn write_couch_members_as(out: &mut Vec<u8>, doc: Doc<'_>, mode: Mode) {
    for element in doc {
        if let [b'$', name @ ..] = element.key
            && name.first() == Some(&b'_')
        {
            begin_member(out);
            member(out, name, element.raw, mode);
        } else if element.key.first() != Some(&b'_') {
            begin_member(out);
            member(out, element.key, element.raw, mode);
        } else if element.key != b"_id" {
            begin_member(out);
            let kept = UNDERSCORED.iter().any(|name| name.as_bytes() == element.key);
            let name = [if kept { "" } else { "$" }.as_bytes(), element.key].concat();
            member(out, &name, element.raw, mode);
        }
    }
}

/// Appends the comma before a member. No member ends with an opening brace.
#[inline]
fn begin_member(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

#[inline]
fn member(out: &mut Vec<u8>, name: &[u8], value: RawValue<'_>, mode: Mode) {
    string(out, name);
    out.push(b':');
    raw(out, value, mode);
}

#[inline]
fn raw(out: &mut Vec<u8>, value: RawValue<'_>, mode: Mode) {
    match (value.tag, value.bytes) {
        // Skips the length in front and the NUL at the end.
        (Type::String, [_, _, _, _, text @ .., 0]) => string(out, text),
        (Type::Int32, &[a, b, c, d]) if mode != Mode::Canonical => {
            integer(out, i32::from_le_bytes([a, b, c, d]).into());
        }
        (Type::Document, bytes) => write_document(out, Doc::trusted(bytes), mode),
        _ => write_value(out, value.decode().unwrap_or(Value::Null), mode),
    }
}

#[inline]
fn integer(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn date(out: &mut Vec<u8>, millis: i64, plain: bool) {
    let calendar = jiff::Timestamp::from_millisecond(millis).ok();
    match calendar.filter(|_| plain && (0..=LAST_DATE).contains(&millis)) {
        Some(date) => {
            let places = if millis % 1000 == 0 { 0 } else { 3 };
            format(out, format_args!(r#"{{"$date":"{date:.places$}"}}"#));
        }
        None => format(out, format_args!(r#"{{"$date":{{"$numberLong":"{millis}"}}}}"#)),
    }
}

/// Appends an object with one member whose value is a string.
fn wrapped(out: &mut Vec<u8>, name: &str, text: &str) {
    format(out, format_args!(r#"{{"{name}":"#));
    write_string(out, text);
    out.push(b'}');
}

#[inline]
fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    let mut rest = text;
    loop {
        // Copies text that needs no escape in one piece.
        let (plain, special) = rest.split_at(plain_length(rest));
        out.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => format(out, format_args!("\\u{control:04x}")),
        }
        rest = after;
    }
    out.push(b'"');
}

fn format(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    // Writing to memory cannot fail.
    let _ = out.write_fmt(arguments);
}
