//! The one validation of untrusted BSON: lengths, nesting, UTF-8, terminators.

use crate::element::{Type, read_i32, value_length};
use std::fmt;

/// How deep documents and arrays may nest, counting the outermost one.
pub const MAX_DEPTH: usize = 100;

/// The largest document that a collection stores, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// Why bytes are not a BSON document, with the offset in the outermost document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ValidationError {
    /// A length that does not fit the bytes around it.
    Length { offset: usize },
    /// A type byte that BSON does not define.
    UnknownType { tag: u8, offset: usize },
    /// Text that is not UTF-8.
    Utf8 { offset: usize },
    /// A missing NUL, or a boolean other than 0 and 1.
    Malformed { offset: usize },
    /// More than [`MAX_DEPTH`] levels.
    TooDeep,
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValidationError::Length { offset } => write!(f, "invalid length at offset {offset}"),
            ValidationError::UnknownType { tag, offset } => {
                write!(f, "unrecognized BSON type {tag} at offset {offset}")
            }
            ValidationError::Utf8 { offset } => write!(f, "invalid UTF-8 at offset {offset}"),
            ValidationError::Malformed { offset } => write!(f, "malformed element at offset {offset}"),
            ValidationError::TooDeep => {
                write!(f, "nesting depth exceeds the limit of {MAX_DEPTH} levels")
            }
        }
    }
}

impl std::error::Error for ValidationError {}

/// Checks that `bytes` are exactly one well-formed document.
pub(crate) fn document(bytes: &[u8]) -> Result<(), ValidationError> {
    nested(bytes, 0, 1)
}

/// Checks the document or array `bytes`, which begins at offset `base` of the outermost one, at nesting `depth`.
fn nested(bytes: &[u8], base: usize, depth: usize) -> Result<(), ValidationError> {
    if depth > MAX_DEPTH {
        return Err(ValidationError::TooDeep);
    }
    if bytes.len() < 5 || read_i32(bytes).and_then(|length| usize::try_from(length).ok()) != Some(bytes.len())
    {
        return Err(ValidationError::Length { offset: base });
    }
    if bytes[bytes.len() - 1] != 0 {
        return Err(ValidationError::Malformed { offset: base + bytes.len() - 1 });
    }
    let end = bytes.len() - 1;
    let mut at = 4;
    while at < end {
        let offset = base + at;
        let tag =
            Type::from_byte(bytes[at]).ok_or(ValidationError::UnknownType { tag: bytes[at], offset })?;
        at += 1;
        let key_length =
            bytes[at..end].iter().position(|&b| b == 0).ok_or(ValidationError::Malformed { offset })?;
        std::str::from_utf8(&bytes[at..at + key_length])
            .map_err(|_| ValidationError::Utf8 { offset: base + at })?;
        at += key_length + 1;
        let length =
            value_length(tag, &bytes[at..end]).ok_or(ValidationError::Length { offset: base + at })?;
        value(tag, &bytes[at..at + length], base + at, depth)?;
        at += length;
    }
    Ok(())
}

/// Checks one value, whose length is known to fit.
fn value(tag: Type, bytes: &[u8], offset: usize, depth: usize) -> Result<(), ValidationError> {
    match tag {
        Type::String | Type::JavaScript | Type::Symbol => string(bytes, offset),
        Type::Document | Type::Array => nested(bytes, offset, depth + 1),
        Type::Boolean if bytes[0] > 1 => Err(ValidationError::Malformed { offset }),
        Type::Regex => std::str::from_utf8(bytes).map(|_| ()).map_err(|_| ValidationError::Utf8 { offset }),
        Type::DbPointer => string(&bytes[..bytes.len() - 12], offset),
        // The old binary subtype 2 repeats its length inside.
        Type::Binary if bytes[4] == 2 => {
            let inner = bytes.get(5..).and_then(read_i32).and_then(|length| usize::try_from(length).ok());
            match inner {
                Some(length) if length + 9 == bytes.len() => Ok(()),
                _ => Err(ValidationError::Length { offset }),
            }
        }
        Type::JavaScriptWithScope => {
            let short = ValidationError::Length { offset };
            let code_length = bytes
                .get(4..)
                .and_then(read_i32)
                .and_then(|length| usize::try_from(length).ok())
                .and_then(|length| length.checked_add(4));
            let Some((code, scope)) =
                code_length.and_then(|length| bytes.get(4..).and_then(|rest| rest.split_at_checked(length)))
            else {
                return Err(short);
            };
            string(code, offset + 4)?;
            nested(scope, offset + 4 + code.len(), depth + 1)
        }
        _ => Ok(()),
    }
}

/// Checks a length-prefixed string: UTF-8, with a NUL as its last byte.
fn string(bytes: &[u8], offset: usize) -> Result<(), ValidationError> {
    match bytes.get(4..) {
        Some([text @ .., 0]) if read_i32(bytes) == i32::try_from(text.len() + 1).ok() => {
            std::str::from_utf8(text).map(|_| ()).map_err(|_| ValidationError::Utf8 { offset: offset + 4 })
        }
        _ => Err(ValidationError::Length { offset }),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_DEPTH, ValidationError};
    use crate::{Doc, DocBuilder, random};
    use fastrand::Rng;

    /// A document with one element: `tag`, the key "a", and these bytes.
    fn one(tag: u8, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&[tag, b'a', 0]);
        bytes.extend_from_slice(value);
        bytes.push(0);
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    #[test]
    fn validation_accepts_well_formed_documents() {
        let mut rng = Rng::with_seed(1);
        for _ in 0..5_000 {
            let doc = random::document(&mut rng, 3);
            assert!(Doc::validate(doc.as_doc().as_bytes()).is_ok(), "{doc:?}");
        }
    }

    #[test]
    fn validation_finds_every_defect() {
        use ValidationError::{Length, Malformed, UnknownType, Utf8};
        for (bytes, expected) in [
            (vec![], Length { offset: 0 }),
            (vec![5, 0, 0, 0], Length { offset: 0 }),
            (vec![6, 0, 0, 0, 0], Length { offset: 0 }),
            (vec![0xFF, 0xFF, 0xFF, 0xFF, 0], Length { offset: 0 }),
            (vec![5, 0, 0, 0, 1], Malformed { offset: 4 }),
            (vec![7, 0, 0, 0, 0x0A, b'a', 0], Malformed { offset: 4 }),
            (one(0x14, &[]), UnknownType { tag: 0x14, offset: 4 }),
            (one(0x10, &[1, 0, 0]), Length { offset: 7 }),
            (one(0x08, &[2]), Malformed { offset: 7 }),
            // Strings: too short for the NUL, a length beyond the end, a negative length, no NUL, invalid UTF-8.
            (one(0x02, &[0, 0, 0, 0]), Length { offset: 7 }),
            (one(0x02, &[9, 0, 0, 0, b'x', 0]), Length { offset: 7 }),
            (one(0x02, &[0xFF, 0xFF, 0xFF, 0xFF, 0]), Length { offset: 7 }),
            (one(0x02, &[1, 0, 0, 0, b'x']), Length { offset: 7 }),
            (one(0x02, &[2, 0, 0, 0, 0xFF, 0]), Utf8 { offset: 11 }),
            // Nested documents and arrays.
            (one(0x03, &[4, 0, 0, 0]), Length { offset: 7 }),
            (one(0x04, &[6, 0, 0, 0, 0]), Length { offset: 7 }),
            (one(0x03, &[5, 0, 0, 0, 1]), Malformed { offset: 11 }),
            // Binary: a length beyond the end; the old subtype's inner length.
            (one(0x05, &[9, 0, 0, 0, 0, 1]), Length { offset: 7 }),
            (one(0x05, &[5, 0, 0, 0, 2, 2, 0, 0, 0, 1]), Length { offset: 7 }),
            (one(0x05, &[0, 0, 0, 0, 2]), Length { offset: 7 }),
            // Regular expression without its second NUL.
            (one(0x0B, b"a"), Length { offset: 7 }),
            (one(0x0B, b"\xFF\0\0"), Utf8 { offset: 7 }),
            // Code with scope: lengths that do not add up.
            (one(0x0F, &[3, 0, 0, 0]), Length { offset: 7 }),
            (one(0x0F, &[14, 0, 0, 0, 1, 0, 0, 0, 0, 4, 0, 0, 0, 0]), Length { offset: 16 }),
            (one(0x0F, &[14, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0]), Length { offset: 11 }),
        ] {
            assert_eq!(Doc::validate(&bytes).map(|_| ()), Err(expected), "{bytes:02x?}");
        }
        assert!(Doc::validate(&one(0x05, &[5, 0, 0, 0, 2, 1, 0, 0, 0, 1])).is_ok());
        assert!(Doc::validate(&one(0x0F, &[14, 0, 0, 0, 1, 0, 0, 0, 0, 5, 0, 0, 0, 0])).is_ok());
    }

    #[test]
    fn keys_must_be_utf8() {
        let mut bytes = one(0x0A, &[]);
        bytes[5] = 0xFF;
        assert_eq!(Doc::validate(&bytes), Err(ValidationError::Utf8 { offset: 5 }));
    }

    #[test]
    fn validation_limits_nesting() {
        let nested = |levels: usize| {
            let mut doc = DocBuilder::new();
            for _ in 1..levels {
                doc.begin_document("a");
            }
            doc.finish()
        };
        assert!(Doc::validate(nested(MAX_DEPTH).as_doc().as_bytes()).is_ok());
        assert_eq!(Doc::validate(nested(MAX_DEPTH + 1).as_doc().as_bytes()), Err(ValidationError::TooDeep));
        assert_eq!(Doc::validate(nested(50_000).as_doc().as_bytes()), Err(ValidationError::TooDeep));
    }

    #[test]
    fn damaged_documents_are_rejected_or_readable() {
        let mut rng = Rng::with_seed(2);
        for _ in 0..10_000 {
            let mut bytes = random::document(&mut rng, 3).into_bytes();
            for _ in 0..rng.usize(1..3) {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            if let Ok(doc) = Doc::validate(&bytes) {
                let mut copy = DocBuilder::new();
                for element in doc {
                    copy.append(element.key_str(), element.value());
                }
                assert_eq!(copy.finish().as_doc().as_bytes(), bytes);
            }
            // Iterating over a rejected document ends without a panic.
            let _ = format!("{:?}", Doc::trusted(&bytes));
        }
    }
}
