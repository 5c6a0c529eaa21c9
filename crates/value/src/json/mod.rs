//! JSON text to BSON and back, with the types of Extended JSON and the conventions of the HTTP interface.
//!
//! The reader parses the text in one pass and writes BSON directly, without a tree in between. An object that has
//! exactly the shape of an Extended JSON type wrapper (`{"$oid": …}`, `{"$date": …}`, …) becomes that value, at any
//! level. The writer is the reader's inverse: its output parses to the same values, and in the canonical form to the
//! same types.
//!
//! - The syntax is strict RFC 8259: no comments, no trailing commas, no lone surrogates, valid UTF-8 only.
//! - A [`Dialect`] selects between the rules for HTTP clients and those for Extended JSON.
//! - Integers become `Int32` or `Int64`, those beyond 64 bits `Double`; `1.0` and `1e0` are `Double`.
//! - The reader limits nesting and size as it goes, so its memory is bounded by the text received.

mod couch;
mod id;
mod keep;
mod number;
mod read;
mod revision;
mod scan;
mod split;
#[cfg(test)]
mod tests;
mod wrapper;
mod write;

pub use couch::{CouchDoc, Revisions, UNSTORABLE_REVISION, is_metadata_member, parse_couch};
pub use id::{IdError, id_from_text, id_to_text};
pub use keep::keep_types;
pub use revision::{parse_hash, push_hash};
pub use split::ArraySplitter;
pub use write::{
    Mode, write_couch_members, write_couch_members_as, write_document, write_string, write_value,
};

use crate::owned::{DocBuf, ValueBuf};
use crate::validate::{MAX_DEPTH, MAX_DOCUMENT_BYTES};
use read::Reader;
use std::fmt;

/// Limits on the parsed BSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many levels objects and arrays may nest.
    pub depth: usize,
    /// How many bytes of BSON the reader may write.
    pub bytes: usize,
}

impl Default for Limits {
    /// The limits of a stored document.
    fn default() -> Limits {
        Limits { depth: MAX_DEPTH, bytes: MAX_DOCUMENT_BYTES }
    }
}

/// Which rules the reader follows where HTTP clients and Extended JSON differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Extended JSON: an object that begins like a type wrapper must be a valid one, and names may occur twice, as in
    /// BSON.
    Extended,
    /// JSON from HTTP clients: an object that only begins like a wrapper, such as `{"$date": "yesterday"}`, is an
    /// ordinary object. If a name occurs twice, the last value replaces the first one at its place, as in CouchDB.
    Plain,
    /// Like `Plain`, for documents whose revision was made elsewhere and whose text must therefore not change: an
    /// object is a type wrapper only in the exact form that [`Mode::Exchange`] writes. `{"$date": …}` with an offset
    /// from UTC stays an ordinary object.
    Replicated,
}

/// The kind of a parse error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The text is not JSON.
    Syntax,
    /// The text is valid in CouchDB but cannot be stored as BSON here: a name with a NUL, or a revision in an
    /// unsupported form.
    Unstorable,
    /// The same for a member whose name begins with a dollar. CouchDB's error is `doc_validation`.
    Reserved,
    /// The text nests too deep.
    Depth,
    /// The BSON is too large.
    Size,
    /// A member that only the server may write, or a member of the wrong type. CouchDB's error is `doc_validation`.
    DocValidation,
    /// An invalid document id. CouchDB's error is `illegal_docid`.
    IllegalId,
    /// Another rule of CouchDB's for documents. CouchDB's error is `bad_request`.
    BadRequest,
}

/// Why a text could not be parsed, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The kind of mistake.
    pub kind: ErrorKind,
    /// How many bytes of the text precede the error.
    pub position: usize,
    /// The description. For the kinds that CouchDB has, it is CouchDB's text.
    pub message: String,
}

impl JsonError {
    fn new(kind: ErrorKind, position: usize, message: impl Into<String>) -> JsonError {
        JsonError { kind, position, message: message.into() }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::Syntax | ErrorKind::Unstorable | ErrorKind::Depth | ErrorKind::Size => {
                write!(f, "{} at byte {}", self.message, self.position)
            }
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for JsonError {}

/// Parses text from an HTTP client that is exactly one object.
pub fn parse_document(text: &[u8], limits: Limits) -> Result<DocBuf, JsonError> {
    parse_document_with(text, limits, Dialect::Plain)
}

/// Parses text that is exactly one object.
pub(crate) fn parse_document_with(
    text: &[u8],
    limits: Limits,
    dialect: Dialect,
) -> Result<DocBuf, JsonError> {
    let mut reader = Reader::new(text, limits, dialect)?;
    reader.whole_document()?;
    Ok(DocBuf::trusted(reader.finish()))
}

/// Parses text from an HTTP client that is exactly one value of any type.
pub fn parse_value(text: &[u8], limits: Limits) -> Result<ValueBuf, JsonError> {
    parse_value_with(text, limits, Dialect::Plain)
}

/// Parses text that is exactly one value of any type.
pub fn parse_value_with(text: &[u8], limits: Limits, dialect: Dialect) -> Result<ValueBuf, JsonError> {
    let mut reader = Reader::new(text, limits, dialect)?;
    let tag = reader.whole_value()?;
    Ok(ValueBuf::trusted(tag, reader.finish()))
}
