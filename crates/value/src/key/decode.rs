//! Decodes keys into values.

use super::types::{Exception, ExceptionReader};
use super::{Direction, class, number};
use crate::builder::{ArrayBuilder, DocBuilder};
use crate::owned::ValueBuf;
use crate::scalar::{ObjectId, Timestamp};
use crate::validate::MAX_DEPTH;
use crate::view::{Array, Value};

/// Decodes a whole key: one value for each direction and nothing after them. `None` if the bytes are not such a key, or
/// if it was made with a collation.
pub fn decode(key: &[u8], types: &[u8], directions: &[Direction]) -> Option<Vec<ValueBuf>> {
    let mut decoder = Decoder::new(key, types);
    let values = directions.iter().map(|&direction| decoder.next(direction)).collect::<Option<Vec<_>>>()?;
    decoder.rest().is_empty().then_some(values)
}

/// Decodes a key's values one at a time.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    types: ExceptionReader<'a>,
    /// 0xFF within a descending value, 0 otherwise.
    flip: u8,
}

impl<'a> Decoder<'a> {
    /// Decodes the key at the front of `key`, with the types from [`Types::as_bytes`](super::Types::as_bytes).
    pub fn new(key: &'a [u8], types: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: key, types: ExceptionReader::new(types), flip: 0 }
    }

    /// The next value, which was encoded in `direction`. After a `None` the decoder must not be used.
    pub fn next(&mut self, direction: Direction) -> Option<ValueBuf> {
        self.flip = if direction == Direction::Descending { 0xFF } else { 0 };
        let class = self.byte()?;
        self.value(class, 2 * MAX_DEPTH)
    }

    /// Appends the next value, which was encoded in `direction`, to a document, and returns whether it is null. After a
    /// `None` neither the decoder nor the document may be used.
    pub fn append_next(&mut self, direction: Direction, name: &str, doc: &mut DocBuilder) -> Option<bool> {
        self.flip = if direction == Direction::Descending { 0xFF } else { 0 };
        let class = self.byte()?;
        if class == class::STRING && self.flip == 0 {
            // Most text needs no escapes and can be copied.
            let end = memchr::memchr(0, self.rest)?;
            let (text, rest) = self.rest.split_at(end);
            if memchr::memchr(1, text).is_none() {
                self.rest = &rest[1..];
                let text = std::str::from_utf8(text).ok()?;
                match self.types.next()? {
                    None => doc.append(name, text),
                    Some(Exception::Symbol) => doc.append(name, Value::Symbol(text)),
                    Some(_) => return None,
                };
                return Some(false);
            }
        }
        let value = self.value(class, 2 * MAX_DEPTH)?;
        let is_null = value.as_value() == Value::Null;
        doc.append(name, value);
        Some(is_null)
    }

    /// Skips the next value, which was encoded in `direction`. After a `None` the decoder must not be used.
    pub fn skip(&mut self, direction: Direction) -> Option<()> {
        let flip = if direction == Direction::Descending { 0xFF } else { 0 };
        match self.rest.first()? ^ flip {
            // The numbers and strings inside have entries in the types, which must be skipped as well.
            class::DOCUMENT | class::ARRAY | class::JAVASCRIPT_WITH_SCOPE => {
                self.next(direction)?;
            }
            class => {
                self.rest = &self.rest[super::skip(self.rest, direction)?..];
                if matches!(class, class::NAN..=class::POSITIVE_INFINITY | class::STRING) {
                    self.types.next()?;
                }
            }
        }
        Some(())
    }

    /// The bytes after the values decoded so far.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Decodes the bytes after the class byte. Documents and arrays may nest `depth` levels deep.
    fn value(&mut self, class: u8, depth: usize) -> Option<ValueBuf> {
        let depth = depth.checked_sub(1)?;
        Some(match class {
            class::NAN..=class::POSITIVE_INFINITY => {
                let exception = self.types.next()?;
                return number::decode(class, || self.byte(), exception);
            }
            class::STRING => {
                let text = self.text()?;
                match self.types.next()? {
                    None => ValueBuf::new(Value::String(&text)),
                    Some(Exception::Symbol) => ValueBuf::new(Value::Symbol(&text)),
                    Some(_) => return None,
                }
            }
            class::DOCUMENT => ValueBuf::from(self.document(depth)?.finish()),
            class::ARRAY => {
                let mut array = ArrayBuilder::new();
                loop {
                    match self.byte()? {
                        class::END => break,
                        class => array.push(self.value(class, depth)?),
                    };
                }
                ValueBuf::new(Value::Array(Array::trusted(&array.finish())))
            }
            class::BINARY => {
                let length = self.length()?;
                let subtype = self.byte()?;
                ValueBuf::new(Value::Binary { subtype, bytes: &self.bytes(length)? })
            }
            class::OBJECT_ID => ValueBuf::new(Value::ObjectId(ObjectId(self.array()?))),
            class::FALSE => ValueBuf::new(Value::Boolean(false)),
            class::TRUE => ValueBuf::new(Value::Boolean(true)),
            class::DATE_TIME => ValueBuf::new(Value::DateTime(i64::from_be_bytes(self.array()?) ^ i64::MIN)),
            class::TIMESTAMP => {
                let bits = u64::from_be_bytes(self.array()?);
                ValueBuf::new(Value::Timestamp(Timestamp::from_bits(bits)))
            }
            class::REGEX => {
                let (pattern, options) = (self.text()?, self.text()?);
                ValueBuf::new(Value::Regex { pattern: &pattern, options: &options })
            }
            class::DB_POINTER => {
                let length = self.length()?;
                let namespace = String::from_utf8(self.bytes(length)?).ok()?;
                ValueBuf::new(Value::DbPointer { namespace: &namespace, id: ObjectId(self.array()?) })
            }
            class::JAVASCRIPT => ValueBuf::new(Value::JavaScript(&self.text()?)),
            class::JAVASCRIPT_WITH_SCOPE => {
                let code = self.text()?;
                let scope = self.document(depth)?.finish();
                ValueBuf::new(Value::JavaScriptWithScope { code: &code, scope: scope.as_doc() })
            }
            class::MIN_KEY => ValueBuf::new(Value::MinKey),
            class::UNDEFINED => ValueBuf::new(Value::Undefined),
            class::NULL => ValueBuf::new(Value::Null),
            class::MAX_KEY => ValueBuf::new(Value::MaxKey),
            _ => return None,
        })
    }

    /// Decodes a document's fields, after its class byte.
    fn document(&mut self, depth: usize) -> Option<DocBuilder> {
        let mut doc = DocBuilder::new();
        loop {
            if self.byte()? == class::END {
                return Some(doc);
            }
            let mut name = Vec::new();
            loop {
                match self.byte()? {
                    0 => break,
                    byte => name.push(byte),
                }
            }
            let class = self.byte()?;
            doc.append(std::str::from_utf8(&name).ok()?, self.value(class, depth)?);
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first ^ self.flip)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(taken.map(|byte| byte ^ self.flip))
    }

    fn bytes(&mut self, length: usize) -> Option<Vec<u8>> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken.iter().map(|byte| byte ^ self.flip).collect())
    }

    fn length(&mut self) -> Option<usize> {
        match self.byte()? {
            u8::MAX => usize::try_from(u32::from_be_bytes(self.array()?)).ok(),
            short => Some(short.into()),
        }
    }

    /// Decodes escaped bytes that are text.
    fn text(&mut self) -> Option<String> {
        // The first zero is the terminator: no escape contains one.
        let end = memchr::memchr(self.flip, self.rest)?;
        let mut bytes = self.bytes(end)?;
        self.byte()?;
        if let Some(first) = memchr::memchr(1, &bytes) {
            let escaped = bytes.split_off(first);
            let mut rest = escaped.iter();
            while let Some(&byte) = rest.next() {
                bytes.push(match (byte, rest.as_slice().first()) {
                    (1, Some(&escaped @ 1..=2)) => {
                        rest.next();
                        escaped - 1
                    }
                    (1, _) => return None,
                    (byte, _) => byte,
                });
            }
        }
        String::from_utf8(bytes).ok()
    }
}
