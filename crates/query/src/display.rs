//! Formats values as MongoDB's error messages show them: `_id: ObjectId('…')`, `{ a: 1, b: [ "x" ] }`.

use diwan_value::{Array, Doc, Element, Value};
use std::fmt;

/// A value, formatted for a message.
pub struct Shown<'a>(pub Value<'a>);

/// A document, formatted for a message.
pub struct ShownDoc<'a>(pub Doc<'a>);

/// A field with its value, formatted for a message: `a: 1`.
pub(crate) struct ShownField<'a>(pub &'a str, pub Value<'a>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Double(number)
                if number.is_finite() && number.trunc() == number && number.abs() < 1e16 =>
            {
                write!(f, "{number:.1}")
            }
            Value::Double(number) if number.is_nan() => f.write_str("nan.0"),
            Value::Double(number) if number.is_infinite() => {
                f.write_str(if number > 0.0 { "inf.0" } else { "-inf.0" })
            }
            Value::Double(number) => write!(f, "{number:?}"),
            Value::String(text) | Value::Symbol(text) => write!(f, "\"{text}\""),
            Value::Document(doc) => ShownDoc(doc).fmt(f),
            Value::Array(array) => show_array(array, f),
            Value::Binary { subtype, bytes } => {
                write!(f, "BinData({subtype}, ")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
                f.write_str(")")
            }
            Value::Undefined => f.write_str("undefined"),
            Value::ObjectId(id) => write!(f, "ObjectId('{id}')"),
            Value::Boolean(flag) => write!(f, "{flag}"),
            Value::DateTime(millis) => write!(f, "new Date({millis})"),
            Value::Null => f.write_str("null"),
            Value::Regex { pattern, options } => write!(f, "/{pattern}/{options}"),
            Value::DbPointer { namespace, id } => write!(f, "DBRef('{namespace}',{id})"),
            Value::JavaScript(code) => f.write_str(code),
            Value::JavaScriptWithScope { code, scope } => {
                write!(f, "CodeWScope( {code}, {})", ShownDoc(scope))
            }
            Value::Int32(number) => write!(f, "{number}"),
            Value::Timestamp(time) => write!(f, "Timestamp({}, {})", time.seconds, time.increment),
            Value::Int64(number) => write!(f, "{number}"),
            Value::Decimal128(decimal) => write!(f, "{decimal}"),
            Value::MinKey => f.write_str("MinKey"),
            Value::MaxKey => f.write_str("MaxKey"),
        }
    }
}

impl fmt::Display for ShownDoc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_list(self.0.iter(), ['{', '}'], f, |element, f| {
            ShownField(element.key_str(), element.value()).fmt(f)
        })
    }
}

impl fmt::Display for ShownField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, Shown(self.1))
    }
}

fn show_array(array: Array<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    show_list(array.elements(), ['[', ']'], f, |element, f| fmt::Display::fmt(&Shown(element.value()), f))
}

/// Writes `items` between `braces`, with commas.
fn show_list<'a>(
    items: impl Iterator<Item = Element<'a>>,
    [open, close]: [char; 2],
    f: &mut fmt::Formatter<'_>,
    show: impl Fn(Element<'a>, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    write!(f, "{open}")?;
    let mut empty = true;
    for item in items {
        f.write_str(if empty { " " } else { ", " })?;
        show(item, f)?;
        empty = false;
    }
    write!(f, "{}{close}", if empty { "" } else { " " })
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    #[test]
    fn values_are_formatted_as_in_the_shell() {
        let doc = doc! { "a": 1, "b": [1.0, "x"], "c": {}, "d": { "e": null, "f": 1.5 } };
        assert_eq!(
            ShownDoc(doc.as_doc()).to_string(),
            "{ a: 1, b: [ 1.0, \"x\" ], c: {}, d: { e: null, f: 1.5 } }"
        );
        assert_eq!(ShownField("_id", Value::Int64(3)).to_string(), "_id: 3");
    }
}
