//! Documents as MongoDB prints them inside error messages: `{ a: 1, b: "x" }`.

use diwan_value::{Array, Doc, Value};
use std::fmt::Write;

/// The text of a document.
pub fn shell_text(doc: Doc<'_>) -> String {
    let mut out = String::new();
    write_doc(&mut out, doc);
    out
}

/// The text of a value.
pub fn value_text(value: Value<'_>) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

fn write_doc(out: &mut String, doc: Doc<'_>) {
    if doc.is_empty() {
        out.push_str("{}");
        return;
    }
    out.push_str("{ ");
    for (at, element) in doc.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        out.push_str(element.key_str());
        out.push_str(": ");
        write_value(out, element.value());
    }
    out.push_str(" }");
}

fn write_array(out: &mut String, array: Array<'_>) {
    if array.is_empty() {
        out.push_str("[]");
        return;
    }
    out.push_str("[ ");
    for (at, value) in array.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write_value(out, value);
    }
    out.push_str(" ]");
}

fn write_value(out: &mut String, value: Value<'_>) {
    // Writing to a String cannot fail.
    let _ = match value {
        Value::Double(number) if number.trunc() == number && number.abs() < 1e15 => {
            write!(out, "{number:.1}")
        }
        Value::Double(number) => write!(out, "{number}"),
        Value::String(text) | Value::Symbol(text) => write!(out, "{text:?}"),
        Value::Document(doc) => return write_doc(out, doc),
        Value::Array(array) => return write_array(out, array),
        Value::Binary { subtype, bytes } => write!(out, "BinData({subtype}, ").and_then(|()| {
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02X}"))?;
            out.write_char(')')
        }),
        Value::Undefined => out.write_str("undefined"),
        Value::ObjectId(id) => write!(out, "ObjectId('{id}')"),
        Value::Boolean(flag) => write!(out, "{flag}"),
        Value::DateTime(millis) => write!(out, "new Date({millis})"),
        Value::Null => out.write_str("null"),
        Value::Regex { pattern, options } => write!(out, "/{pattern}/{options}"),
        Value::DbPointer { namespace, id } => write!(out, "DBRef('{namespace}', {id})"),
        Value::JavaScript(code) => write!(out, "{code}"),
        Value::JavaScriptWithScope { code, scope } => write!(out, "CodeWScope( {code}, ")
            .map(|()| write_doc(out, scope))
            .and_then(|()| out.write_char(')')),
        Value::Int32(number) => write!(out, "{number}"),
        Value::Int64(number) => write!(out, "{number}"),
        Value::Timestamp(timestamp) => {
            write!(out, "Timestamp({}, {})", timestamp.seconds, timestamp.increment)
        }
        Value::Decimal128(decimal) => write!(out, "NumberDecimal(\"{decimal}\")"),
        Value::MinKey => out.write_str("MinKey"),
        Value::MaxKey => out.write_str("MaxKey"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    #[test]
    fn prints_as_mongodb_does() {
        let document = doc! { "a": 1, "b": "x", "c": [1.5, null], "d": {} };
        assert_eq!(shell_text(document.as_doc()), r#"{ a: 1, b: "x", c: [ 1.5, null ], d: {} }"#);
    }
}
