//! The one check that bytes from outside pass: lengths, nesting, UTF-8, terminators.

use crate::element::{Type, read_i32, value_length};
use std::fmt;

/// How deep documents and arrays may nest, the outermost counted.
pub const MAX_DEPTH: usize = 100;

/// The largest document that a collection stores, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// Why bytes are not a BSON document, and at which byte of the outermost document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ValidationError {
    /// A length that does not fit the bytes around it.
    Length { offset: usize },
    /// A type byte that BSON does not know.
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

/// Checks the document or array `bytes`, which begins at `base` of the outermost one, at nesting `depth`.
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

/// Checks one value whose length is known to fit.
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

/// Checks a length-prefixed string: at least its NUL, which is last, and UTF-8 before it.
fn string(bytes: &[u8], offset: usize) -> Result<(), ValidationError> {
    match bytes.get(4..) {
        Some([text @ .., 0]) if read_i32(bytes) == i32::try_from(text.len() + 1).ok() => {
            std::str::from_utf8(text).map(|_| ()).map_err(|_| ValidationError::Utf8 { offset: offset + 4 })
        }
        _ => Err(ValidationError::Length { offset }),
    }
}
