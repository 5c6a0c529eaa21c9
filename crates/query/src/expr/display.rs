//! Formats values for messages about evaluation, which is more compact than [`crate::display`].

use diwan_value::Value;
use std::fmt::{self, Display, Formatter};

/// A value in the form of MongoDB's messages: `{a: 1}`, `[1, "two"]`, `MISSING`.
pub(crate) struct Shown<'a>(pub Option<Value<'a>>);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(value) = self.0 else { return f.write_str("MISSING") };
        match value {
            Value::Double(number) => write!(f, "{number}"),
            Value::Int32(number) => write!(f, "{number}"),
            Value::Int64(number) => write!(f, "{number}"),
            Value::String(text) => write!(f, "\"{text}\""),
            Value::Boolean(flag) => write!(f, "{flag}"),
            Value::Null => f.write_str("null"),
            Value::Undefined => f.write_str("undefined"),
            Value::MinKey => f.write_str("MinKey"),
            Value::MaxKey => f.write_str("MaxKey"),
            Value::ObjectId(id) => write!(f, "{id}"),
            Value::Timestamp(time) => write!(f, "Timestamp({}, {})", time.seconds, time.increment),
            Value::Regex { pattern, options } => write!(f, "/{pattern}/{options}"),
            Value::Document(doc) => {
                f.write_str("{")?;
                for (at, element) in doc.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    write!(f, "{comma}{}: {}", element.key_str(), Shown(Some(element.value())))?;
                }
                f.write_str("}")
            }
            Value::Array(array) => {
                f.write_str("[")?;
                for (at, value) in array.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { ", " } else { "" }, Shown(Some(value)))?;
                }
                f.write_str("]")
            }
            Value::Decimal128(number) => write!(f, "{number}"),
            other => crate::display::Shown(other).fmt(f),
        }
    }
}
