//! Sets of BSON types: the arguments of `$type` and `bsonType`.

use super::integer;
use crate::display::Shown;
use crate::error::{Error, Result};
use diwan_value::{Type, Value};

/// A set of BSON types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeSet {
    /// One bit for each type of [`ALL`].
    bits: u32,
}

/// Every type, in the order of the bits.
const ALL: [Type; 21] = [
    Type::Double,
    Type::String,
    Type::Document,
    Type::Array,
    Type::Binary,
    Type::Undefined,
    Type::ObjectId,
    Type::Boolean,
    Type::DateTime,
    Type::Null,
    Type::Regex,
    Type::DbPointer,
    Type::JavaScript,
    Type::Symbol,
    Type::JavaScriptWithScope,
    Type::Int32,
    Type::Timestamp,
    Type::Int64,
    Type::Decimal128,
    Type::MinKey,
    Type::MaxKey,
];

/// The types of the alias "number".
const NUMBERS: [Type; 4] = [Type::Double, Type::Int32, Type::Int64, Type::Decimal128];

/// The type names of JSON Schema's `type`.
const JSON_TYPES: [(&str, &[Type]); 6] = [
    ("array", &[Type::Array]),
    ("boolean", &[Type::Boolean]),
    ("null", &[Type::Null]),
    ("number", &NUMBERS),
    ("object", &[Type::Document]),
    ("string", &[Type::String]),
];

impl TypeSet {
    /// The set of `types`.
    pub fn of(types: &[Type]) -> TypeSet {
        TypeSet { bits: types.iter().fold(0, |bits, tag| bits | bit(*tag)) }
    }

    /// The four numeric types.
    pub fn numbers() -> TypeSet {
        TypeSet::of(&NUMBERS)
    }

    /// Whether `tag` is in the set.
    #[inline]
    pub fn contains(self, tag: Type) -> bool {
        self.bits & bit(tag) != 0
    }

    /// Whether no type is in the set.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The types in the set.
    pub fn types(self) -> impl Iterator<Item = Type> {
        ALL.into_iter().filter(move |tag| self.contains(*tag))
    }

    /// Parses a type's number or alias, or an array of them.
    pub(super) fn parse(value: Value<'_>) -> Result<TypeSet> {
        parse_with(value, |one| match one {
            Value::String(alias) => from_alias(alias),
            _ if one.is_number() => from_number(one),
            _ => Err(Error::type_mismatch("type must be represented as a number or a string")),
        })
    }

    /// Parses the value of a `$jsonSchema` keyword: a name or an array of distinct names, of BSON types or of JSON
    /// types.
    pub(super) fn parse_schema_keyword(keyword: &str, value: Value<'_>) -> Result<TypeSet> {
        let json = keyword == "type";
        let alias = |name: &str| match JSON_TYPES.iter().find(|(known, _)| json && *known == name) {
            Some((_, types)) => Ok(TypeSet::of(types)),
            None if json && name == "integer" => {
                Err(Error::failed_to_parse("$jsonSchema type 'integer' is not currently supported."))
            }
            None if json => Err(Error::bad_value(format!("Unknown type name alias: {name}"))),
            None => from_alias(name),
        };
        let set = match value {
            Value::String(name) => alias(name)?,
            Value::Array(names) => {
                let mut set = TypeSet::default();
                for name in names.iter() {
                    let Value::String(name) = name else {
                        return Err(Error::type_mismatch(format!(
                            "$jsonSchema keyword '{keyword}' array elements must be strings"
                        )));
                    };
                    let one = alias(name)?;
                    if one.bits & !set.bits == 0 {
                        return Err(Error::failed_to_parse(format!(
                            "$jsonSchema keyword '{keyword}' has duplicate value: {name}"
                        )));
                    }
                    set.bits |= one.bits;
                }
                set
            }
            _ => {
                return Err(Error::type_mismatch(format!(
                    "$jsonSchema keyword '{keyword}' must be either a string or an array of strings"
                )));
            }
        };
        if set.is_empty() {
            return Err(Error::failed_to_parse(format!(
                "$jsonSchema keyword '{keyword}' must name at least one type"
            )));
        }
        Ok(set)
    }
}

fn bit(tag: Type) -> u32 {
    match tag {
        Type::MinKey => 1 << 30,
        Type::MaxKey => 1 << 31,
        _ => 1 << tag as u32,
    }
}

fn parse_with<'a>(value: Value<'a>, one: impl Fn(Value<'a>) -> Result<TypeSet>) -> Result<TypeSet> {
    let Value::Array(array) = value else { return one(value) };
    let mut set = TypeSet::default();
    for value in array.iter() {
        set.bits |= one(value)?.bits;
    }
    Ok(set)
}

fn from_alias(alias: &str) -> Result<TypeSet> {
    if alias == "number" {
        return Ok(TypeSet::numbers());
    }
    ALL.into_iter()
        .find(|tag| tag.alias() == alias)
        .map(|tag| TypeSet::of(&[tag]))
        .ok_or_else(|| Error::bad_value(format!("Unknown type name alias: {alias}")))
}

fn from_number(value: Value<'_>) -> Result<TypeSet> {
    let unknown = || format!("Invalid numerical type code: {}", Shown(value));
    let tag = match integer::exact("", value) {
        Ok(0) => {
            return Err(Error::bad_value(format!("{}. Instead use {{$exists:false}}.", unknown())));
        }
        Ok(-1) => Some(Type::MinKey),
        Ok(number) => u8::try_from(number).ok().filter(|byte| *byte != 0xFF).and_then(Type::from_byte),
        Err(_) => None,
    };
    tag.map(|tag| TypeSet::of(&[tag])).ok_or_else(|| Error::bad_value(unknown()))
}
