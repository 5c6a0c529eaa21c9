//! Extended JSON in `String`s, for text that people write: errors give line and column. The parser and the writer are
//! those of [`crate::json`].
//!
//! An object that begins like a type wrapper must be a valid one; other names that begin with a dollar are ordinary.

#[cfg(test)]
mod tests;

pub use crate::json::Mode;

use crate::json::{self, Dialect, JsonError, Limits};
use crate::owned::{DocBuf, ValueBuf};
use crate::validate::{MAX_DEPTH, MAX_DOCUMENT_BYTES};
use crate::view::{Doc, Value};
use std::fmt;

/// How large the parsed BSON may become: the size limit of a wire protocol message.
const LIMITS: Limits = Limits { depth: MAX_DEPTH, bytes: 3 * MAX_DOCUMENT_BYTES };

/// Why a text is not Extended JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// What is wrong.
    pub message: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
}

impl ParseError {
    fn new(text: &str, error: JsonError) -> ParseError {
        let before = &text.as_bytes()[..error.position.min(text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        ParseError { message: error.message, line, column }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.message, self.line, self.column)
    }
}

impl std::error::Error for ParseError {}

/// Parses text that is exactly one object.
pub fn parse(text: &str) -> Result<DocBuf, ParseError> {
    json::parse_document_with(text.as_bytes(), LIMITS, Dialect::Extended)
        .map_err(|error| ParseError::new(text, error))
}

/// Parses text that is exactly one value of any type.
pub fn parse_value(text: &str) -> Result<ValueBuf, ParseError> {
    json::parse_value_with(text.as_bytes(), LIMITS, Dialect::Extended)
        .map_err(|error| ParseError::new(text, error))
}

/// Writes a document as one line of JSON without spaces.
pub fn to_json(doc: Doc<'_>, mode: Mode) -> String {
    value_to_json(Value::Document(doc), mode)
}

/// Writes a value as JSON.
pub fn value_to_json(value: Value<'_>, mode: Mode) -> String {
    let mut out = Vec::new();
    json::write_value(&mut out, value, mode);
    // The text is not UTF-8 only if the bytes were damaged after validation.
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
