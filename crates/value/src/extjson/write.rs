//! Values as Extended JSON.

use crate::view::{Doc, Value};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;

/// Which of the two forms is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every type is kept.
    Canonical,
    /// Numbers and dates of this era read as in plain JSON.
    Relaxed,
}

/// The last millisecond of the year 9999, after which relaxed dates are numbers.
const LAST_DATE: i64 = 253_402_300_799_999;

/// A document as one line of JSON without spaces.
pub fn to_json(doc: Doc<'_>, mode: Mode) -> String {
    value_to_json(Value::Document(doc), mode)
}

/// A value as JSON.
pub fn value_to_json(value: Value<'_>, mode: Mode) -> String {
    let mut writer = Writer { out: String::new(), mode };
    writer.value(value);
    writer.out
}

struct Writer {
    out: String,
    mode: Mode,
}

impl Writer {
    fn value(&mut self, value: Value<'_>) {
        let relaxed = self.mode == Mode::Relaxed;
        match value {
            Value::Double(number) if relaxed && number.is_finite() => self.format(format_args!("{number:?}")),
            Value::Double(number) => {
                let text = if number.is_finite() {
                    format!("{number:?}")
                } else if number.is_nan() {
                    "NaN".to_owned()
                } else {
                    (if number > 0.0 { "Infinity" } else { "-Infinity" }).to_owned()
                };
                self.wrapped("$numberDouble", &text);
            }
            Value::Int32(number) if relaxed => self.format(format_args!("{number}")),
            Value::Int32(number) => self.wrapped("$numberInt", &number.to_string()),
            Value::Int64(number) if relaxed => self.format(format_args!("{number}")),
            Value::Int64(number) => self.wrapped("$numberLong", &number.to_string()),
            Value::Decimal128(number) => self.wrapped("$numberDecimal", &number.to_string()),
            Value::String(text) => self.string(text),
            Value::Document(doc) => self.document(doc),
            Value::Array(array) => {
                self.out.push('[');
                for (index, value) in array.iter().enumerate() {
                    if index > 0 {
                        self.out.push(',');
                    }
                    self.value(value);
                }
                self.out.push(']');
            }
            Value::Binary { subtype, bytes } => {
                // The old subtype 2 repeats its length inside; its content is what follows.
                let content = if subtype == 2 { bytes.get(4..).unwrap_or_default() } else { bytes };
                let content = STANDARD.encode(content);
                self.format(format_args!(
                    r#"{{"$binary":{{"base64":"{content}","subType":"{subtype:02x}"}}}}"#
                ));
            }
            Value::Undefined => self.out.push_str(r#"{"$undefined":true}"#),
            Value::ObjectId(id) => self.format(format_args!(r#"{{"$oid":"{id}"}}"#)),
            Value::Boolean(flag) => self.format(format_args!("{flag}")),
            Value::DateTime(millis) => self.date(millis),
            Value::Null => self.out.push_str("null"),
            Value::Regex { pattern, options } => {
                self.out.push_str(r#"{"$regularExpression":{"pattern":"#);
                self.string(pattern);
                self.out.push_str(r#","options":"#);
                self.string(options);
                self.out.push_str("}}");
            }
            Value::DbPointer { namespace, id } => {
                self.out.push_str(r#"{"$dbPointer":{"$ref":"#);
                self.string(namespace);
                self.format(format_args!(r#","$id":{{"$oid":"{id}"}}}}}}"#));
            }
            Value::JavaScript(code) => self.wrapped("$code", code),
            Value::Symbol(text) => self.wrapped("$symbol", text),
            Value::JavaScriptWithScope { code, scope } => {
                self.out.push_str(r#"{"$code":"#);
                self.string(code);
                self.out.push_str(r#","$scope":"#);
                self.document(scope);
                self.out.push('}');
            }
            Value::Timestamp(timestamp) => self.format(format_args!(
                r#"{{"$timestamp":{{"t":{},"i":{}}}}}"#,
                timestamp.seconds, timestamp.increment
            )),
            Value::MinKey => self.out.push_str(r#"{"$minKey":1}"#),
            Value::MaxKey => self.out.push_str(r#"{"$maxKey":1}"#),
        }
    }

    fn document(&mut self, doc: Doc<'_>) {
        self.out.push('{');
        for (index, element) in doc.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.string(element.key_str());
            self.out.push(':');
            self.value(element.value());
        }
        self.out.push('}');
    }

    fn date(&mut self, millis: i64) {
        let calendar = jiff::Timestamp::from_millisecond(millis)
            .ok()
            .filter(|_| self.mode == Mode::Relaxed && (0..=LAST_DATE).contains(&millis));
        match calendar {
            Some(date) => {
                let places = if millis % 1000 == 0 { 0 } else { 3 };
                self.format(format_args!(r#"{{"$date":"{date:.places$}"}}"#));
            }
            None => self.format(format_args!(r#"{{"$date":{{"$numberLong":"{millis}"}}}}"#)),
        }
    }

    /// An object of one member whose value is a string.
    fn wrapped(&mut self, name: &str, text: &str) {
        self.format(format_args!(r#"{{"{name}":"#));
        self.string(text);
        self.out.push('}');
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        let mut rest = text;
        // What needs no escape is copied in one piece.
        while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
            let (plain, special) = rest.split_at(at);
            self.out.push_str(plain);
            match special.as_bytes()[0] {
                b'"' => self.out.push_str("\\\""),
                b'\\' => self.out.push_str("\\\\"),
                b'\n' => self.out.push_str("\\n"),
                b'\r' => self.out.push_str("\\r"),
                b'\t' => self.out.push_str("\\t"),
                control => self.format(format_args!("\\u{control:04x}")),
            }
            rest = &special[1..];
        }
        self.out.push_str(rest);
        self.out.push('"');
    }

    fn format(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(arguments);
    }
}
