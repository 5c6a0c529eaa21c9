//! Order-preserving key bytes: values become bytes that `memcmp` orders as [`compare`](crate::compare()) orders them.
//!
//! Each encoded value begins with a class byte for its type's rank and delimits itself: no value's bytes are a prefix
//! of another's. The values of a compound key are therefore concatenated, with the bytes of descending ones
//! complemented, and any bytes may follow. Values that compare equal have equal bytes: 1, 1.0 and the decimal 1.00
//! share one key. [`Types`] records what distinguishes them, beside the key, and only for values that do not have the
//! type that their key bytes suggest. [`Decoder`] restores the values from the two.
//!
//! The bytes are an on-disk format.

mod decode;
mod number;
mod skip;
mod types;

use crate::collation::Collator;
use crate::element::Type;
use crate::view::{Array, Doc, Value};

pub use decode::{Decoder, decode};
pub use skip::skip;
pub use types::Types;

/// Whether a key part is ascending or descending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the smallest value to the largest.
    #[default]
    Ascending,
    /// From the largest value to the smallest.
    Descending,
}

/// The first byte of every value. The gaps leave space for later types; 0 ends documents and arrays.
mod class {
    pub const END: u8 = 0x00;
    pub const MIN_KEY: u8 = 0x0A;
    pub const UNDEFINED: u8 = 0x0F;
    pub const NULL: u8 = 0x14;
    pub const NAN: u8 = 0x1D;
    pub const NEGATIVE_INFINITY: u8 = 0x1E;
    pub const NEGATIVE_LARGE: u8 = 0x1F;
    /// Eight class bytes: magnitudes of 8 bytes down to 1.
    pub const NEGATIVE_8: u8 = 0x20;
    pub const NEGATIVE_1: u8 = 0x27;
    pub const NEGATIVE_SMALL: u8 = 0x28;
    pub const ZERO: u8 = 0x29;
    pub const POSITIVE_SMALL: u8 = 0x2A;
    /// Eight class bytes: magnitudes of 1 byte up to 8.
    pub const POSITIVE_1: u8 = 0x2B;
    pub const POSITIVE_8: u8 = 0x32;
    pub const POSITIVE_LARGE: u8 = 0x33;
    pub const POSITIVE_INFINITY: u8 = 0x34;
    pub const STRING: u8 = 0x3C;
    pub const DOCUMENT: u8 = 0x46;
    pub const ARRAY: u8 = 0x50;
    pub const BINARY: u8 = 0x5A;
    pub const OBJECT_ID: u8 = 0x64;
    pub const FALSE: u8 = 0x6E;
    pub const TRUE: u8 = 0x6F;
    pub const DATE_TIME: u8 = 0x78;
    pub const TIMESTAMP: u8 = 0x82;
    pub const REGEX: u8 = 0x8C;
    pub const DB_POINTER: u8 = 0x96;
    pub const JAVASCRIPT: u8 = 0xA0;
    pub const JAVASCRIPT_WITH_SCOPE: u8 = 0xAA;
    pub const MAX_KEY: u8 = 0xF0;
}

/// The lowest and the highest class byte of the values that share a type's rank.
fn classes(tag: Type) -> (u8, u8) {
    let one = |class| (class, class);
    match tag {
        Type::MinKey => one(class::MIN_KEY),
        Type::Undefined => one(class::UNDEFINED),
        Type::Null => one(class::NULL),
        Type::Double | Type::Int32 | Type::Int64 | Type::Decimal128 => (class::NAN, class::POSITIVE_INFINITY),
        Type::String | Type::Symbol => one(class::STRING),
        Type::Document => one(class::DOCUMENT),
        Type::Array => one(class::ARRAY),
        Type::Binary => one(class::BINARY),
        Type::ObjectId => one(class::OBJECT_ID),
        Type::Boolean => (class::FALSE, class::TRUE),
        Type::DateTime => one(class::DATE_TIME),
        Type::Timestamp => one(class::TIMESTAMP),
        Type::Regex => one(class::REGEX),
        Type::DbPointer => one(class::DB_POINTER),
        Type::JavaScript => one(class::JAVASCRIPT),
        Type::JavaScriptWithScope => one(class::JAVASCRIPT_WITH_SCOPE),
        Type::MaxKey => one(class::MAX_KEY),
    }
}

/// Bounds of all values of a type's rank (all four numeric types together, strings and symbols together). Their keys
/// are at or above the first one-byte key and below the second.
pub fn type_bounds(tag: Type, direction: Direction) -> ([u8; 1], [u8; 1]) {
    let (first, last) = classes(tag);
    match direction {
        Direction::Ascending => ([first], [last + 1]),
        Direction::Descending => ([!last], [!first + 1]),
    }
}

/// Appends the key bytes of `value` to `out`, and to `types` whatever restores the exact type. With a `collator`,
/// strings are replaced by sort keys: such keys can be compared but not decoded.
#[inline]
pub fn encode(
    out: &mut Vec<u8>,
    types: &mut Types,
    value: Value<'_>,
    direction: Direction,
    collator: Option<&Collator>,
) {
    let start = out.len();
    Encoder { out, types: Some(types), collator }.value(value);
    turn(out, start, direction);
}

/// Like [`encode`], for bounds and sorting, where only the order matters.
#[inline]
pub fn encode_order(out: &mut Vec<u8>, value: Value<'_>, direction: Direction, collator: Option<&Collator>) {
    let start = out.len();
    Encoder { out, types: None, collator }.value(value);
    turn(out, start, direction);
}

/// Complements the bytes from `start` on if the part is descending.
#[inline]
fn turn(out: &mut [u8], start: usize, direction: Direction) {
    if direction == Direction::Descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

struct Encoder<'e> {
    out: &'e mut Vec<u8>,
    types: Option<&'e mut Types>,
    collator: Option<&'e Collator>,
}

impl Encoder<'_> {
    #[inline]
    fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Int32(number) => {
                number::integer(self.out, number.into());
                self.common();
            }
            Value::Int64(number) => {
                number::integer(self.out, number);
                self.note(|types| types.int64(number));
            }
            Value::Double(number) => {
                number::double(self.out, number);
                self.note(|types| types.double(number));
            }
            Value::Decimal128(number) => {
                let form = number::decimal(self.out, number);
                self.note(|types| types.decimal(number, form));
            }
            Value::String(text) => {
                self.string(text);
                self.common();
            }
            Value::ObjectId(id) => {
                self.out.push(class::OBJECT_ID);
                self.out.extend_from_slice(&id.0);
            }
            _ => self.rarer(value),
        }
    }

    fn rarer(&mut self, value: Value<'_>) {
        match value {
            Value::Symbol(text) => {
                self.string(text);
                self.note(Types::symbol);
            }
            Value::Document(doc) => {
                self.out.push(class::DOCUMENT);
                self.document(doc);
            }
            Value::Array(array) => self.array(array),
            Value::Binary { subtype, bytes } => {
                self.out.push(class::BINARY);
                self.length(bytes.len());
                self.out.push(subtype);
                self.out.extend_from_slice(bytes);
            }
            Value::Boolean(flag) => self.out.push(if flag { class::TRUE } else { class::FALSE }),
            Value::DateTime(millis) => {
                self.out.push(class::DATE_TIME);
                self.out.extend_from_slice(&(millis ^ i64::MIN).to_be_bytes());
            }
            Value::Timestamp(timestamp) => {
                self.out.push(class::TIMESTAMP);
                self.out.extend_from_slice(&timestamp.to_bits().to_be_bytes());
            }
            Value::Regex { pattern, options } => {
                self.out.push(class::REGEX);
                escape(self.out, pattern.as_bytes());
                escape(self.out, options.as_bytes());
            }
            Value::DbPointer { namespace, id } => {
                self.out.push(class::DB_POINTER);
                self.length(namespace.len());
                self.out.extend_from_slice(namespace.as_bytes());
                self.out.extend_from_slice(&id.0);
            }
            Value::JavaScript(code) => {
                self.out.push(class::JAVASCRIPT);
                escape(self.out, code.as_bytes());
            }
            Value::JavaScriptWithScope { code, scope } => {
                self.out.push(class::JAVASCRIPT_WITH_SCOPE);
                escape(self.out, code.as_bytes());
                // A scope belongs to code and is never collated.
                Encoder { out: self.out, types: self.types.as_deref_mut(), collator: None }.document(scope);
            }
            // These types have a single value. `value` handles all other types.
            other => self.out.push(classes(other.tag()).0),
        }
    }

    #[inline]
    fn string(&mut self, text: &str) {
        self.out.push(class::STRING);
        match self.collator {
            None => escape(self.out, text.as_bytes()),
            Some(collator) => escape(self.out, &collator.sort_key(text)),
        }
    }

    /// Writes each field as type rank, name and value: the order in which documents compare.
    fn document(&mut self, doc: Doc<'_>) {
        for element in doc {
            self.out.push(classes(element.raw.tag).0);
            self.out.extend_from_slice(element.key);
            self.out.push(0);
            self.value(element.value());
        }
        self.out.push(class::END);
    }

    fn array(&mut self, array: Array<'_>) {
        self.out.push(class::ARRAY);
        for value in array.iter() {
            self.value(value);
        }
        self.out.push(class::END);
    }

    /// Writes a length: one byte if it is below 255, otherwise 255 and four bytes.
    fn length(&mut self, length: usize) {
        match u8::try_from(length) {
            Ok(short) if short < u8::MAX => self.out.push(short),
            _ => {
                self.out.push(u8::MAX);
                self.out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
            }
        }
    }

    #[inline]
    fn common(&mut self) {
        self.note(Types::common);
    }

    #[inline]
    fn note(&mut self, note: impl FnOnce(&mut Types)) {
        if let Some(types) = self.types.as_deref_mut() {
            note(types);
        }
    }
}

/// Writes bytes of any length and a terminator that sorts below all of them. The terminator is 0, so the bytes 0 and 1
/// are escaped as 1 1 and 1 2.
#[inline]
fn escape(out: &mut Vec<u8>, mut bytes: &[u8]) {
    out.reserve(bytes.len() + 1);
    while let Some(at) = memchr::memchr2(0, 1, bytes) {
        out.extend_from_slice(&bytes[..at]);
        out.extend_from_slice(&[1, bytes[at] + 1]);
        bytes = &bytes[at + 1..];
    }
    out.extend_from_slice(bytes);
    out.push(0);
}

#[cfg(test)]
mod tests;
