//! The target of `$convert`: a type by name or number, and the subtype of binary data.

use crate::error::{Error, Result};
use crate::expr::coerce::{as_i32, is_nullish, type_name};
use diwan_value::{Type, Value};

/// The target type of a conversion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub tag: Type,
    /// The subtype argument. It is checked only for binary data.
    subtype: Value<'a>,
}

impl<'a> Target<'a> {
    /// Binary data with the UUID subtype.
    pub const UUID: Target<'static> = Target { tag: Type::Binary, subtype: Value::Int32(4) };

    /// A type that needs no subtype.
    pub fn of_type(tag: Type) -> Target<'static> {
        Target { tag, subtype: Value::Int32(0) }
    }

    /// Parses the argument `to`; `None` if it is null.
    pub fn of(to: Option<Value<'a>>) -> Result<Option<Target<'a>>> {
        let (tag, subtype) = match to {
            Some(Value::Document(doc)) if doc.contains_key("type") => {
                if let Some(other) = doc.iter().find(|element| !matches!(element.key, b"type" | b"subtype")) {
                    let text = format!("$convert found an unknown argument: {}", other.key_str());
                    return Err(Error::failed_to_parse(text));
                }
                (doc.get("type"), doc.get("subtype"))
            }
            tag => (tag, None),
        };
        if is_nullish(tag) {
            return Ok(None);
        }
        let subtype = subtype.filter(|subtype| !subtype.is_nullish()).unwrap_or(Value::Int32(0));
        Ok(Some(Target { tag: tag_of(tag)?, subtype }))
    }

    /// The subtype of binary data.
    pub fn binary_subtype(&self) -> Result<u8> {
        if !self.subtype.is_number() {
            let found = self.subtype.tag().alias();
            let text = format!("For BinData, $convert's 'subtype' argument must be a number, but is {found}");
            return Err(Error::new(4341108, text));
        }
        let Some(number) = as_i32(Some(self.subtype)) else {
            return Err(Error::new(4341106, "In $convert, numeric 'subtype' argument is not an integer"));
        };
        u8::try_from(number).ok().filter(|subtype| matches!(subtype, 0..=9 | 128..=255)).ok_or_else(|| {
            let text = format!(
                "In $convert, numeric value for 'subtype' does not correspond to a BinData type: {number}"
            );
            Error::new(4341107, text)
        })
    }
}

/// The type for a name or a number.
fn tag_of(value: Option<Value<'_>>) -> Result<Type> {
    match value {
        Some(Value::String(name)) => {
            let mut types = (0..=u8::MAX).filter_map(Type::from_byte);
            types
                .find(|tag| tag.alias() == name)
                .ok_or_else(|| Error::bad_value(format!("Unknown type name: {name}")))
        }
        Some(number) if number.is_number() => {
            let Some(number) = as_i32(value) else {
                return Err(Error::failed_to_parse("In $convert, numeric 'to' argument is not an integer"));
            };
            let byte = if number == -1 {
                Some(u8::MAX)
            } else {
                u8::try_from(number).ok().filter(|byte| *byte < 128)
            };
            byte.and_then(Type::from_byte).ok_or_else(|| {
                Error::failed_to_parse(format!(
                    "In $convert, numeric value for 'to' does not correspond to a BSON type: {number}"
                ))
            })
        }
        other => {
            let found = type_name(other);
            let text = format!("$convert's 'to' argument must be a string or number, but is {found}");
            Err(Error::failed_to_parse(text))
        }
    }
}
