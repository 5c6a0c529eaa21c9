//! Converts documents that are Extended JSON type wrappers to their values. The members are already parsed.

use crate::owned::ValueBuf;
use crate::scalar::{Decimal128, ObjectId, Timestamp};
use crate::view::{Doc, Value};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The result for a document whose first name begins with a dollar.
pub(super) enum Unwrapped {
    /// The document wraps this value.
    Value(ValueBuf),
    /// The document is not a wrapper.
    Ordinary,
    /// The document begins like a wrapper but is not valid; the text says why.
    Invalid(String),
}

/// Converts the value of a wrapper's first member.
type Unwrap = fn(Value<'_>) -> Option<ValueBuf>;

/// The wrappers that have one member.
const WRAPPERS: &[(&str, Unwrap)] = &[
    ("$oid", |content| Some(Value::ObjectId(ObjectId::parse_hex(content.as_str()?)?).to_owned())),
    ("$date", date),
    ("$numberLong", |content| Some(Value::Int64(content.as_str()?.parse().ok()?).to_owned())),
    ("$numberDouble", |content| Some(Value::Double(double(content.as_str()?)?).to_owned())),
    ("$numberInt", |content| Some(Value::Int32(content.as_str()?.parse().ok()?).to_owned())),
    ("$numberDecimal", |content| {
        Some(Value::Decimal128(content.as_str()?.parse::<Decimal128>().ok()?).to_owned())
    }),
    ("$binary", |content| {
        let doc = content.as_doc().filter(|doc| doc.count() == 2)?;
        binary(doc.get_str("base64")?, doc.get_str("subType")?)
    }),
    ("$uuid", |content| Some(Value::Binary { subtype: 4, bytes: &uuid(content.as_str()?)? }.to_owned())),
    ("$regularExpression", regular_expression),
    ("$timestamp", |content| {
        let doc = content.as_doc().filter(|doc| doc.count() == 2)?;
        let part = |name| match doc.get(name)? {
            Value::Int32(number) => u32::try_from(number).ok(),
            Value::Int64(number) => u32::try_from(number).ok(),
            _ => None,
        };
        Some(Value::Timestamp(Timestamp { seconds: part("t")?, increment: part("i")? }).to_owned())
    }),
    ("$symbol", |content| Some(Value::Symbol(content.as_str()?).to_owned())),
    ("$code", |content| Some(Value::JavaScript(content.as_str()?).to_owned())),
    ("$dbPointer", |content| {
        let doc = content.as_doc().filter(|doc| doc.count() == 2)?;
        let Some(Value::ObjectId(id)) = doc.get("$id") else { return None };
        Some(Value::DbPointer { namespace: doc.get_str("$ref")?, id }.to_owned())
    }),
    ("$minKey", |content| is_one(content).then(|| Value::MinKey.to_owned())),
    ("$maxKey", |content| is_one(content).then(|| Value::MaxKey.to_owned())),
    ("$undefined", |content| (content == Value::Boolean(true)).then(|| Value::Undefined.to_owned())),
];

/// Whether a wrapper's first member may have this name.
#[inline]
pub(super) fn is_name(name: &[u8]) -> bool {
    name.first() == Some(&b'$') && WRAPPERS.iter().any(|(known, _)| known.as_bytes() == name)
}

/// Unwraps a document, if it is a wrapper.
pub(super) fn unwrap(doc: Doc<'_>) -> Unwrapped {
    let mut elements = doc.iter();
    let Some(first) = elements.next() else { return Unwrapped::Ordinary };
    let name = first.key_str();
    let Some((_, unwrap)) = WRAPPERS.iter().find(|(known, _)| *known == name) else {
        return Unwrapped::Ordinary;
    };
    let content = first.value();
    let value = match elements.next() {
        None => unwrap(content),
        Some(second) if elements.next().is_some() => return beside(second.key_str(), name),
        Some(second) => match (name, second.key_str(), content, second.value()) {
            ("$code", "$scope", Value::String(code), Value::Document(scope)) => {
                Some(Value::JavaScriptWithScope { code, scope }.to_owned())
            }
            ("$code", "$scope", ..) => None,
            // Version 1 of the format has the subtype beside the content.
            ("$binary", "$type", Value::String(text), Value::String(subtype)) => binary(text, subtype),
            ("$binary", "$type", ..) => None,
            (_, extra, ..) => return beside(extra, name),
        },
    };
    value.map_or_else(|| Unwrapped::Invalid(format!("invalid value of '{name}'")), Unwrapped::Value)
}

fn beside(extra: &str, name: &str) -> Unwrapped {
    Unwrapped::Invalid(format!("unexpected '{extra}' beside '{name}'"))
}

fn is_one(content: Value<'_>) -> bool {
    matches!(content, Value::Int32(1) | Value::Int64(1))
}

fn date(content: Value<'_>) -> Option<ValueBuf> {
    let millis = match content {
        Value::String(text) => text.parse::<jiff::Timestamp>().ok()?.as_millisecond(),
        Value::Int32(millis) => millis.into(),
        Value::Int64(millis) => millis,
        _ => return None,
    };
    Some(Value::DateTime(millis).to_owned())
}

fn regular_expression(content: Value<'_>) -> Option<ValueBuf> {
    let doc = content.as_doc().filter(|doc| doc.count() == 2)?;
    let (pattern, options) = (doc.get_str("pattern")?, doc.get_str("options")?);
    if pattern.contains('\0') || options.contains('\0') {
        return None;
    }
    let mut sorted: Vec<char> = options.chars().collect();
    sorted.sort_unstable();
    Some(Value::Regex { pattern, options: &sorted.into_iter().collect::<String>() }.to_owned())
}

/// Parses a double as Rust does, but accepts infinities and NaN only in their JSON spelling.
fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn binary(content: &str, subtype: &str) -> Option<ValueBuf> {
    if !(1..=2).contains(&subtype.len()) {
        return None;
    }
    let subtype = u8::from_str_radix(subtype, 16).ok()?;
    let mut bytes = STANDARD.decode(content).ok()?;
    if subtype == 2 {
        // The old subtype 2 repeats its length inside.
        let length = i32::try_from(bytes.len()).ok()?;
        bytes.splice(0..0, length.to_le_bytes());
    }
    Some(Value::Binary { subtype, bytes: &bytes }.to_owned())
}

/// Parses the 16 bytes of a UUID such as `c8edabc3-f738-4ca3-b68d-ab92a91478a3`.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let dashes = [8, 13, 18, 23];
    if text.len() != 36 || !text.bytes().enumerate().all(|(at, byte)| (byte == b'-') == dashes.contains(&at))
    {
        return None;
    }
    let digits: String = text.chars().filter(|&char| char != '-').collect();
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}
