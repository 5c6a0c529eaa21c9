//! JSON as it travels: text to BSON and back, types of Extended JSON kept, and the conventions of the HTTP face.
//!
//! The reader goes over the text once and writes BSON as it goes; there is no tree in between. An object that has
//! exactly the shape of one of Extended JSON's type wrappers (`{"$oid": …}`, `{"$date": …}`, …) becomes that value, at
//! any level. The writer is the reader's inverse: what it writes reads back as the same values, and in the canonical
//! form as the same types.
//!
//! - Strict RFC 8259: no comments, no trailing commas, no lone surrogates, no bytes that are not UTF-8.
//! - What is not the same for clients over HTTP and in Extended JSON is a [`Dialect`].
//! - Integers become `Int32` or `Int64`, those beyond 64 bits `Double`; `1.0` and `1e0` are `Double`.
//! - Nesting and size are limited while reading, so that memory follows what was sent.

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

/// How large what is read may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many levels of objects and arrays may lie in one another.
    pub depth: usize,
    /// How many bytes of BSON may be written.
    pub bytes: usize,
}

impl Default for Limits {
    /// Those of a stored document.
    fn default() -> Limits {
        Limits { depth: MAX_DEPTH, bytes: MAX_DOCUMENT_BYTES }
    }
}

/// Which text is read, where the two readers of JSON differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Extended JSON: an object that begins like a type wrapper must be one, and names may occur twice, as in BSON.
    Extended,
    /// What clients over HTTP send: an object that only begins like a wrapper, such as `{"$date": "yesterday"}`, is
    /// an ordinary one, and of the values of a name that occurs twice the last counts, at the place of the first, as
    /// CouchDB has it.
    Plain,
    /// As `Plain`, for documents whose revision was made elsewhere, so that their text must not change: an object is a
    /// type wrapper only in the one form in which [`Mode::Exchange`] writes its value. `{"$date": …}` with an offset
    /// from UTC stays an ordinary object.
    Replicated,
}

/// What kind of mistake a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The text is not JSON.
    Syntax,
    /// What CouchDB stores and BSON has no place for: a name with a NUL, a revision of another form than there may be
    /// here.
    Unstorable,
    /// The same for a member whose name begins with a dollar: CouchDB's `doc_validation`.
    Reserved,
    /// Nested too deep.
    Depth,
    /// Too large.
    Size,
    /// A member of a document that only the server may write, or of the wrong type: CouchDB's `doc_validation`.
    DocValidation,
    /// An invalid document id: CouchDB's `illegal_docid`.
    IllegalId,
    /// Another condition of CouchDB's on documents: its `bad_request`.
    BadRequest,
}

/// Why a text was not read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The kind of mistake.
    pub kind: ErrorKind,
    /// How many bytes of the text lie before the mistake.
    pub position: usize,
    /// What is wrong. For the kinds that CouchDB knows, its own text.
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

/// Reads text that is exactly one object. It is what a client sends over HTTP.
pub fn parse_document(text: &[u8], limits: Limits) -> Result<DocBuf, JsonError> {
    parse_document_with(text, limits, Dialect::Plain)
}

/// Reads text that is exactly one object.
pub fn parse_document_with(text: &[u8], limits: Limits, dialect: Dialect) -> Result<DocBuf, JsonError> {
    let mut reader = Reader::new(text, limits, dialect)?;
    reader.whole_document()?;
    Ok(DocBuf::trusted(reader.finish()))
}

/// Reads text that is exactly one value of any type. It is what a client sends over HTTP.
pub fn parse_value(text: &[u8], limits: Limits) -> Result<ValueBuf, JsonError> {
    parse_value_with(text, limits, Dialect::Plain)
}

/// Reads text that is exactly one value of any type.
pub fn parse_value_with(text: &[u8], limits: Limits, dialect: Dialect) -> Result<ValueBuf, JsonError> {
    let mut reader = Reader::new(text, limits, dialect)?;
    let tag = reader.whole_value()?;
    Ok(ValueBuf::trusted(tag, reader.finish()))
}
