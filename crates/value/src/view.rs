//! Borrowed views: a document, an array, a value.

use crate::element::{Element, Elements, RawValue, Type};
use crate::owned::{DocBuf, ValueBuf};
use crate::scalar::{Decimal128, ObjectId, Timestamp};
use crate::validate::{self, ValidationError};
use std::fmt;

/// An empty document's bytes.
const EMPTY: &[u8] = &[5, 0, 0, 0, 0];

/// A document: a view of its BSON bytes, length and final NUL included.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Doc<'a>(&'a [u8]);

impl<'a> Doc<'a> {
    /// The document `{}`.
    pub const EMPTY: Doc<'static> = Doc(EMPTY);

    /// Validates `bytes`, which must be exactly one document, and makes a view of them.
    pub fn validate(bytes: &'a [u8]) -> Result<Doc<'a>, ValidationError> {
        validate::document(bytes)?;
        Ok(Doc(bytes))
    }

    /// Makes a view of bytes that were validated before: read from the store, or just built. A view of damaged bytes is
    /// safe to read but may have fewer elements.
    #[inline]
    pub fn trusted(bytes: &'a [u8]) -> Doc<'a> {
        Doc(bytes)
    }

    /// The document's bytes.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The elements in order.
    #[inline]
    pub fn iter(self) -> Elements<'a> {
        Elements::new(self.0.get(4..).unwrap_or_default())
    }

    /// Whether the document has no element.
    pub fn is_empty(self) -> bool {
        self.0.len() <= 5
    }

    /// How many elements there are. Iterates over all of them.
    pub fn count(self) -> usize {
        self.iter().count()
    }

    /// The first element with that key, not decoded.
    #[inline]
    pub fn get_raw(self, key: &str) -> Option<RawValue<'a>> {
        self.iter().find(|element| element.key == key.as_bytes()).map(|element| element.raw)
    }

    /// The first value with that key.
    #[inline]
    pub fn get(self, key: &str) -> Option<Value<'a>> {
        self.get_raw(key).and_then(RawValue::decode)
    }

    /// Whether a key is present.
    pub fn contains_key(self, key: &str) -> bool {
        self.get_raw(key).is_some()
    }

    /// The value of a string field.
    pub fn get_str(self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    /// The value of a document field.
    pub fn get_doc(self, key: &str) -> Option<Doc<'a>> {
        self.get(key)?.as_doc()
    }

    /// The value of an array field.
    pub fn get_array(self, key: &str) -> Option<Array<'a>> {
        self.get(key)?.as_array()
    }

    /// A copy that owns its bytes.
    pub fn to_owned(self) -> DocBuf {
        DocBuf::trusted(self.0.to_vec())
    }
}

impl Default for Doc<'_> {
    fn default() -> Self {
        Doc::EMPTY
    }
}

impl<'a> IntoIterator for Doc<'a> {
    type Item = Element<'a>;
    type IntoIter = Elements<'a>;

    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

impl fmt::Debug for Doc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|element| (element.key_str(), element.value()))).finish()
    }
}

/// An array: a view of its BSON bytes, laid out as a document with the keys "0", "1", …. Readers ignore the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Array<'a>(&'a [u8]);

impl<'a> Array<'a> {
    /// The array `[]`.
    pub const EMPTY: Array<'static> = Array(EMPTY);

    /// Makes a view of bytes that were validated before, like [`Doc::trusted`].
    #[inline]
    pub fn trusted(bytes: &'a [u8]) -> Array<'a> {
        Array(bytes)
    }

    /// The array's bytes.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The values in order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Value<'a>> + Clone {
        self.elements().map(|element| element.value())
    }

    /// The elements in order, values not decoded.
    #[inline]
    pub fn elements(self) -> Elements<'a> {
        Elements::new(self.0.get(4..).unwrap_or_default())
    }

    /// The value at `index`. Iterates up to it.
    pub fn get(self, index: usize) -> Option<Value<'a>> {
        self.elements().nth(index).map(|element| element.value())
    }

    /// Whether the array has no value.
    pub fn is_empty(self) -> bool {
        self.0.len() <= 5
    }

    /// How many values there are. Iterates over all of them.
    pub fn count(self) -> usize {
        self.elements().count()
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A value: scalars are copied; strings, documents, arrays and binaries are views.
///
/// `PartialEq` compares representations: an `Int32` never equals a `Double`. `compare` gives the order of the query
/// language.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value<'a> {
    Double(f64),
    String(&'a str),
    Document(Doc<'a>),
    Array(Array<'a>),
    Binary {
        subtype: u8,
        bytes: &'a [u8],
    },
    Undefined,
    ObjectId(ObjectId),
    Boolean(bool),
    /// Milliseconds since the Unix epoch.
    DateTime(i64),
    Null,
    Regex {
        pattern: &'a str,
        options: &'a str,
    },
    DbPointer {
        namespace: &'a str,
        id: ObjectId,
    },
    JavaScript(&'a str),
    Symbol(&'a str),
    JavaScriptWithScope {
        code: &'a str,
        scope: Doc<'a>,
    },
    Int32(i32),
    Timestamp(Timestamp),
    Int64(i64),
    Decimal128(Decimal128),
    MinKey,
    MaxKey,
}

impl Value<'static> {
    /// An `Int32` if the number fits, otherwise an `Int64`: how MongoDB's server returns most counts and sizes.
    pub fn integer(number: i64) -> Value<'static> {
        i32::try_from(number).map_or(Value::Int64(number), Value::Int32)
    }
}

impl<'a> Value<'a> {
    /// The value's type.
    pub fn tag(&self) -> Type {
        match self {
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Document(_) => Type::Document,
            Value::Array(_) => Type::Array,
            Value::Binary { .. } => Type::Binary,
            Value::Undefined => Type::Undefined,
            Value::ObjectId(_) => Type::ObjectId,
            Value::Boolean(_) => Type::Boolean,
            Value::DateTime(_) => Type::DateTime,
            Value::Null => Type::Null,
            Value::Regex { .. } => Type::Regex,
            Value::DbPointer { .. } => Type::DbPointer,
            Value::JavaScript(_) => Type::JavaScript,
            Value::Symbol(_) => Type::Symbol,
            Value::JavaScriptWithScope { .. } => Type::JavaScriptWithScope,
            Value::Int32(_) => Type::Int32,
            Value::Timestamp(_) => Type::Timestamp,
            Value::Int64(_) => Type::Int64,
            Value::Decimal128(_) => Type::Decimal128,
            Value::MinKey => Type::MinKey,
            Value::MaxKey => Type::MaxKey,
        }
    }

    /// The text of a string; `None` for a symbol.
    pub fn as_str(self) -> Option<&'a str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    /// The document, if it is one.
    pub fn as_doc(self) -> Option<Doc<'a>> {
        if let Value::Document(doc) = self { Some(doc) } else { None }
    }

    /// The array, if it is one.
    pub fn as_array(self) -> Option<Array<'a>> {
        if let Value::Array(array) = self { Some(array) } else { None }
    }

    /// The boolean, if it is one. [`Value::is_truthy`] gives the truth of any value.
    pub fn as_bool(self) -> Option<bool> {
        if let Value::Boolean(flag) = self { Some(flag) } else { None }
    }

    /// The number as an `i64`, if it is an `Int32`, an `Int64`, or a `Double` in range without a fraction.
    pub fn as_i64_exact(self) -> Option<i64> {
        match self {
            Value::Int32(number) => Some(number.into()),
            Value::Int64(number) => Some(number),
            Value::Double(number) if number.trunc() == number && number.abs() < 9.2e18 => Some(number as i64),
            Value::Decimal128(number) => number.to_i64_exact(),
            _ => None,
        }
    }

    /// Whether the value is of one of the four numeric types.
    pub fn is_number(&self) -> bool {
        matches!(self, Value::Double(_) | Value::Int32(_) | Value::Int64(_) | Value::Decimal128(_))
    }

    /// Whether the value is `Null` or the deprecated `Undefined`.
    pub fn is_nullish(&self) -> bool {
        matches!(self, Value::Null | Value::Undefined)
    }

    /// The truth of the value as a condition: `false`, null, undefined and every zero are false, all else is true.
    pub fn is_truthy(self) -> bool {
        match self {
            Value::Boolean(flag) => flag,
            Value::Null | Value::Undefined => false,
            Value::Int32(number) => number != 0,
            Value::Int64(number) => number != 0,
            Value::Double(number) => number != 0.0,
            Value::Decimal128(number) => !number.is_zero(),
            _ => true,
        }
    }

    /// A copy that owns its bytes.
    pub fn to_owned(self) -> ValueBuf {
        ValueBuf::new(self)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Decimal128, Doc, Value, doc};

    #[test]
    fn get_finds_fields_by_key() {
        let document = doc! { "a": 1, "b": "text", "a": 2, "c": { "d": [1] } };
        let view = document.as_doc();
        assert_eq!(view.get("a"), Some(Value::Int32(1)));
        assert_eq!(view.get_str("b"), Some("text"));
        assert_eq!(view.get_str("a"), None);
        assert_eq!(view.get("x"), None);
        assert_eq!(view.count(), 4);
        let inner = view.get_doc("c").and_then(|doc| doc.get_array("d"));
        assert_eq!(inner.and_then(|array| array.get(0)), Some(Value::Int32(1)));
        assert!(view.contains_key("c") && !view.contains_key("d"));
    }

    #[test]
    fn iteration_over_damaged_bytes_ends_early() {
        let document = doc! { "a": 1, "b": 2 };
        let bytes = document.as_doc().as_bytes();
        for length in 0..bytes.len() {
            assert!(Doc::trusted(&bytes[..length]).count() <= 2);
        }
        assert!(Doc::trusted(&[]).is_empty());
        assert_eq!(Doc::trusted(&[9, 0, 0, 0, 0x77, b'a', 0, 1, 0]).count(), 0);
    }

    #[test]
    fn only_false_null_undefined_and_zero_are_falsy() {
        let falsy =
            [Value::Boolean(false), Value::Null, Value::Undefined, Value::Int32(0), Value::Double(-0.0)];
        assert!(!falsy.iter().any(|value| value.is_truthy()));
        assert!(!Value::Decimal128(Decimal128::ZERO).is_truthy());
        let truthy = [Value::Boolean(true), Value::String(""), Value::Double(f64::NAN), Value::Int64(-1)];
        assert!(truthy.iter().all(|value| value.is_truthy()));
    }

    #[test]
    fn as_i64_exact_rejects_rounding() {
        assert_eq!(Value::Double(3.0).as_i64_exact(), Some(3));
        assert_eq!(Value::Double(3.5).as_i64_exact(), None);
        assert_eq!(Value::Double(f64::NAN).as_i64_exact(), None);
        assert_eq!(Value::Double(f64::INFINITY).as_i64_exact(), None);
        assert_eq!(Value::Double(9.3e18).as_i64_exact(), None);
        assert_eq!(Value::Int64(i64::MAX).as_i64_exact(), Some(i64::MAX));
        assert_eq!(Value::Decimal128(Decimal128::ZERO).as_i64_exact(), Some(0));
        assert_eq!(Value::String("3").as_i64_exact(), None);
    }
}
