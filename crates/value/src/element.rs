//! Elements of a document: type byte, key and value bytes, located without decoding the value.

use crate::scalar::{Decimal128, ObjectId, Timestamp};
use crate::view::{Array, Doc, Value};

/// The BSON types with their type bytes (bsonspec.org, version 1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Type {
    Double = 0x01,
    String = 0x02,
    Document = 0x03,
    Array = 0x04,
    Binary = 0x05,
    Undefined = 0x06,
    ObjectId = 0x07,
    Boolean = 0x08,
    DateTime = 0x09,
    Null = 0x0A,
    Regex = 0x0B,
    DbPointer = 0x0C,
    JavaScript = 0x0D,
    Symbol = 0x0E,
    JavaScriptWithScope = 0x0F,
    Int32 = 0x10,
    Timestamp = 0x11,
    Int64 = 0x12,
    Decimal128 = 0x13,
    MaxKey = 0x7F,
    MinKey = 0xFF,
}

impl Type {
    /// The type for a type byte.
    pub fn from_byte(byte: u8) -> Option<Type> {
        Some(match byte {
            0x01 => Type::Double,
            0x02 => Type::String,
            0x03 => Type::Document,
            0x04 => Type::Array,
            0x05 => Type::Binary,
            0x06 => Type::Undefined,
            0x07 => Type::ObjectId,
            0x08 => Type::Boolean,
            0x09 => Type::DateTime,
            0x0A => Type::Null,
            0x0B => Type::Regex,
            0x0C => Type::DbPointer,
            0x0D => Type::JavaScript,
            0x0E => Type::Symbol,
            0x0F => Type::JavaScriptWithScope,
            0x10 => Type::Int32,
            0x11 => Type::Timestamp,
            0x12 => Type::Int64,
            0x13 => Type::Decimal128,
            0x7F => Type::MaxKey,
            0xFF => Type::MinKey,
            _ => return None,
        })
    }

    /// The type's alias in `$type` and in error messages: `"double"`, `"string"`, `"object"`, …
    pub fn alias(self) -> &'static str {
        match self {
            Type::Double => "double",
            Type::String => "string",
            Type::Document => "object",
            Type::Array => "array",
            Type::Binary => "binData",
            Type::Undefined => "undefined",
            Type::ObjectId => "objectId",
            Type::Boolean => "bool",
            Type::DateTime => "date",
            Type::Null => "null",
            Type::Regex => "regex",
            Type::DbPointer => "dbPointer",
            Type::JavaScript => "javascript",
            Type::Symbol => "symbol",
            Type::JavaScriptWithScope => "javascriptWithScope",
            Type::Int32 => "int",
            Type::Timestamp => "timestamp",
            Type::Int64 => "long",
            Type::Decimal128 => "decimal",
            Type::MaxKey => "maxKey",
            Type::MinKey => "minKey",
        }
    }
}

/// Reads a little-endian `i32` at the front of `bytes`.
pub(crate) fn read_i32(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk().map(|chunk| i32::from_le_bytes(*chunk))
}

/// How the length of a value is found, indexed by type byte: the fixed length; or [`PREFIXED`] plus the bytes that the
/// length prefix does not count; or [`SEARCHED`].
const LENGTHS: [u8; 256] = {
    let mut lengths = [SEARCHED; 256];
    lengths[Type::Double as usize] = 8;
    lengths[Type::String as usize] = PREFIXED | 4;
    lengths[Type::Document as usize] = PREFIXED;
    lengths[Type::Array as usize] = PREFIXED;
    lengths[Type::Binary as usize] = PREFIXED | 5;
    lengths[Type::Undefined as usize] = 0;
    lengths[Type::ObjectId as usize] = 12;
    lengths[Type::Boolean as usize] = 1;
    lengths[Type::DateTime as usize] = 8;
    lengths[Type::Null as usize] = 0;
    lengths[Type::DbPointer as usize] = PREFIXED | 16;
    lengths[Type::JavaScript as usize] = PREFIXED | 4;
    lengths[Type::Symbol as usize] = PREFIXED | 4;
    lengths[Type::JavaScriptWithScope as usize] = PREFIXED;
    lengths[Type::Int32 as usize] = 4;
    lengths[Type::Timestamp as usize] = 8;
    lengths[Type::Int64 as usize] = 8;
    lengths[Type::Decimal128 as usize] = 16;
    lengths[Type::MaxKey as usize] = 0;
    lengths[Type::MinKey as usize] = 0;
    lengths
};

/// The value begins with its length.
const PREFIXED: u8 = 0x80;

/// The end of the value must be searched for: regular expressions.
const SEARCHED: u8 = 0xFF;

/// How many bytes a value of type `tag` at the front of `rest` occupies; `None` if it does not fit.
#[inline]
pub(crate) fn value_length(tag: Type, rest: &[u8]) -> Option<usize> {
    let length = match LENGTHS[tag as usize] {
        fixed @ 0..PREFIXED => usize::from(fixed),
        SEARCHED => regex_length(rest)?,
        prefixed => usize::try_from(read_i32(rest)?).ok()? + usize::from(prefixed & !PREFIXED),
    };
    (length <= rest.len()).then_some(length)
}

/// How many bytes a regular expression's pattern and options at the front of `rest` occupy.
#[cold]
fn regex_length(rest: &[u8]) -> Option<usize> {
    let pattern = memchr::memchr(0, rest)?;
    let options = memchr::memchr(0, &rest[pattern + 1..])?;
    Some(pattern + options + 2)
}

/// A value that is not decoded: its type and its bytes in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawValue<'a> {
    /// The type.
    pub tag: Type,
    /// The bytes after the key's NUL.
    pub bytes: &'a [u8],
}

impl<'a> RawValue<'a> {
    /// Decodes a scalar, or makes a view of a string, document or binary. `None` only for damaged bytes.
    #[inline]
    pub fn decode(self) -> Option<Value<'a>> {
        let bytes = self.bytes;
        Some(match self.tag {
            Type::Double => Value::Double(f64::from_le_bytes(bytes.try_into().ok()?)),
            Type::String => Value::String(text(bytes)?),
            Type::Document => Value::Document(Doc::trusted(bytes)),
            Type::Array => Value::Array(Array::trusted(bytes)),
            Type::Binary => Value::Binary { subtype: *bytes.get(4)?, bytes: bytes.get(5..)? },
            Type::Undefined => Value::Undefined,
            Type::ObjectId => Value::ObjectId(ObjectId(bytes.try_into().ok()?)),
            Type::Boolean => Value::Boolean(*bytes.first()? != 0),
            Type::DateTime => Value::DateTime(i64::from_le_bytes(bytes.try_into().ok()?)),
            Type::Null => Value::Null,
            Type::Regex => {
                let (pattern, options) = bytes.split_at_checked(memchr::memchr(0, bytes)?)?;
                let options = options.get(1..options.len() - 1)?;
                Value::Regex {
                    pattern: std::str::from_utf8(pattern).ok()?,
                    options: std::str::from_utf8(options).ok()?,
                }
            }
            Type::DbPointer => {
                let (namespace, id) = bytes.split_at_checked(bytes.len().checked_sub(12)?)?;
                Value::DbPointer { namespace: text(namespace)?, id: ObjectId(id.try_into().ok()?) }
            }
            Type::JavaScript => Value::JavaScript(text(bytes)?),
            Type::Symbol => Value::Symbol(text(bytes)?),
            Type::JavaScriptWithScope => {
                let code_length = usize::try_from(read_i32(bytes.get(4..)?)?).ok()?.checked_add(4)?;
                let (code, scope) = bytes.get(4..)?.split_at_checked(code_length)?;
                Value::JavaScriptWithScope { code: text(code)?, scope: Doc::trusted(scope) }
            }
            Type::Int32 => Value::Int32(i32::from_le_bytes(bytes.try_into().ok()?)),
            Type::Timestamp => {
                Value::Timestamp(Timestamp::from_bits(u64::from_le_bytes(bytes.try_into().ok()?)))
            }
            Type::Int64 => Value::Int64(i64::from_le_bytes(bytes.try_into().ok()?)),
            Type::Decimal128 => Value::Decimal128(Decimal128(bytes.try_into().ok()?)),
            Type::MaxKey => Value::MaxKey,
            Type::MinKey => Value::MinKey,
        })
    }
}

/// The text of a length-prefixed, NUL-terminated string.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes.get(4..bytes.len().checked_sub(1)?)?).ok()
}

/// One element of a document or array.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// The bytes of the key, without its NUL: UTF-8 in a validated document.
    pub key: &'a [u8],
    /// The value, not decoded.
    pub raw: RawValue<'a>,
}

impl<'a> Element<'a> {
    /// The key as text; empty for damaged bytes.
    pub fn key_str(&self) -> &'a str {
        std::str::from_utf8(self.key).unwrap_or_default()
    }

    /// The value decoded; `Null` for damaged bytes.
    #[inline]
    pub fn value(&self) -> Value<'a> {
        self.raw.decode().unwrap_or(Value::Null)
    }
}

/// Iterates over the elements of a document in order. Iteration ends early on damaged bytes.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// Iterates over `body`: a document's bytes after its length, with or without the final NUL.
    pub(crate) fn new(body: &'a [u8]) -> Elements<'a> {
        Elements { rest: body }
    }
}

/// Where the key at the front of `bytes` ends. Most keys end within the first eight bytes, so that case needs no loop.
#[inline]
fn key_length(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    if let Some(head) = bytes.first_chunk() {
        let head = u64::from_le_bytes(*head);
        // The lowest set bit marks the first NUL; higher bits may be wrong.
        let nul = head.wrapping_sub(ONES) & !head & (ONES << 7);
        if nul != 0 {
            return Some((nul.trailing_zeros() / 8) as usize);
        }
    }
    bytes.iter().position(|&byte| byte == 0)
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (&tag, after_tag) = self.rest.split_first()?;
        if tag == 0 {
            self.rest = &[];
            return None;
        }
        let element = (|| {
            let tag = Type::from_byte(tag)?;
            let key_length = key_length(after_tag)?;
            let (key, rest) = after_tag.split_at(key_length);
            let rest = &rest[1..];
            let (bytes, rest) = rest.split_at(value_length(tag, rest)?);
            self.rest = rest;
            Some(Element { key, raw: RawValue { tag, bytes } })
        })();
        if element.is_none() {
            self.rest = &[];
        }
        element
    }
}

#[cfg(test)]
mod tests {
    use super::{RawValue, Type};
    use crate::random;
    use fastrand::Rng;

    #[test]
    fn from_byte_inverts_type_bytes() {
        let known: Vec<Type> = (0..=u8::MAX).filter_map(Type::from_byte).collect();
        assert_eq!(known.len(), 21);
        assert!(known.iter().all(|&tag| Type::from_byte(tag as u8) == Some(tag)));
    }

    #[test]
    fn decode_returns_the_written_value() {
        let mut rng = Rng::with_seed(1);
        for _ in 0..2_000 {
            let value = random::value(&mut rng, 2);
            let raw = value.as_raw();
            assert_eq!(raw.decode().map(|value| value.to_owned()).as_ref(), Some(&value));
            // Truncated anywhere, a value decodes to another value or to none, without a panic.
            let bytes = &raw.bytes[..rng.usize(..=raw.bytes.len())];
            let _ = format!("{:?}", RawValue { tag: raw.tag, bytes }.decode());
        }
    }
}
