//! Finds where the first value of a key ends, also in keys made with a collation.

use super::{Direction, class, number};
use crate::validate::MAX_DEPTH;

/// How many bytes the first value of `key` occupies. It was encoded in `direction`. `None` for damaged bytes.
pub fn skip(key: &[u8], direction: Direction) -> Option<usize> {
    let mut at = Cursor { rest: key, flip: if direction == Direction::Descending { 0xFF } else { 0 } };
    let class = at.byte()?;
    at.value(class, 2 * MAX_DEPTH)?;
    Some(key.len() - at.rest.len())
}

struct Cursor<'a> {
    rest: &'a [u8],
    flip: u8,
}

impl Cursor<'_> {
    fn value(&mut self, class: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match class {
            class::NAN..=class::POSITIVE_INFINITY => {
                number::skip(class, &mut || self.byte())?;
            }
            class::STRING | class::JAVASCRIPT => self.escaped()?,
            class::DOCUMENT => self.document(depth)?,
            class::ARRAY => loop {
                match self.byte()? {
                    class::END => break,
                    class => self.value(class, depth)?,
                }
            },
            class::BINARY => {
                let length = self.length()?;
                self.bytes(length + 1)?;
            }
            class::OBJECT_ID => self.bytes(12)?,
            class::DATE_TIME | class::TIMESTAMP => self.bytes(8)?,
            class::REGEX => {
                self.escaped()?;
                self.escaped()?;
            }
            class::DB_POINTER => {
                let length = self.length()?;
                self.bytes(length + 12)?;
            }
            class::JAVASCRIPT_WITH_SCOPE => {
                self.escaped()?;
                self.document(depth)?;
            }
            class::FALSE | class::TRUE | class::MIN_KEY | class::UNDEFINED | class::NULL | class::MAX_KEY => {
            }
            _ => return None,
        }
        Some(())
    }

    fn document(&mut self, depth: usize) -> Option<()> {
        while self.byte()? != class::END {
            while self.byte()? != 0 {}
            let class = self.byte()?;
            self.value(class, depth)?;
        }
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first ^ self.flip)
    }

    fn bytes(&mut self, length: usize) -> Option<()> {
        self.rest = self.rest.get(length..)?;
        Some(())
    }

    fn length(&mut self) -> Option<usize> {
        match self.byte()? {
            u8::MAX => {
                let (taken, rest) = self.rest.split_first_chunk::<4>()?;
                self.rest = rest;
                usize::try_from(u32::from_be_bytes(taken.map(|byte| byte ^ self.flip))).ok()
            }
            short => Some(short.into()),
        }
    }

    /// Escaped bytes end at a zero; no escape contains one.
    fn escaped(&mut self) -> Option<()> {
        let end = memchr::memchr(self.flip, self.rest)?;
        self.bytes(end + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::encode_order;
    use crate::{ObjectId, Value, doc};

    #[test]
    fn skip_finds_the_end_of_every_type() {
        let nested = doc! { "a": [1, "x\0y", { "b": 1.5 }], "c": null };
        let values = [
            Value::Int32(-7),
            Value::Double(0.1),
            Value::Int64(i64::MIN),
            Value::String("a\0\u{1}b"),
            Value::Document(nested.as_doc()),
            Value::Binary { subtype: 0, bytes: &[0; 300] },
            Value::ObjectId(ObjectId([0xFF; 12])),
            Value::Boolean(true),
            Value::DateTime(-1),
            Value::Regex { pattern: "a", options: "i" },
            Value::JavaScriptWithScope { code: "f", scope: nested.as_doc() },
            Value::MinKey,
        ];
        for value in values {
            for direction in [Direction::Ascending, Direction::Descending] {
                let mut key = Vec::new();
                encode_order(&mut key, value, direction, None);
                let length = key.len();
                key.extend_from_slice(&[0x3C, 0xC3, 0]);
                assert_eq!(skip(&key, direction), Some(length), "{value:?}");
            }
        }
        assert_eq!(skip(&[], Direction::Ascending), None);
        assert_eq!(skip(&[class::OBJECT_ID, 1], Direction::Ascending), None);
    }
}
