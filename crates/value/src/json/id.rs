//! Ids of any type as text: what stands in a URL and in the member `_id`.
//!
//! A string is its own text and an `ObjectId` is its 24 lower-case hexadecimal digits. Everything else is a tilde and
//! canonical Extended JSON: other types, and strings that would read as something else (24 such digits, a tilde and the
//! JSON of such an id) or that CouchDB's clients may not use as ids (the empty one, those that begin with an underscore
//! but `_design/…`). Any other text that begins with a tilde is a string, as in CouchDB. So every value has exactly one
//! text, and every text is that of one value or of none.

use super::write::{Mode, write_value};
use super::{Dialect, ErrorKind, JsonError, Limits, parse_value_with};
use crate::owned::ValueBuf;
use crate::scalar::ObjectId;
use crate::view::Value;
use std::fmt;

/// How long an id's text may be: what the store takes as an id, and all of it escaped.
const MAX_TEXT: usize = 128 * 1024;

/// Why a text is not an id. Its display is CouchDB's reason where CouchDB has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdError(String);

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for IdError {}

impl From<IdError> for JsonError {
    fn from(error: IdError) -> JsonError {
        JsonError { kind: ErrorKind::IllegalId, position: 0, message: error.0 }
    }
}

/// Appends the text of an id.
pub fn id_to_text(id: Value<'_>, out: &mut String) {
    match id {
        Value::String(text) if is_plain(text) => out.push_str(text),
        Value::ObjectId(id) => out.push_str(&id.to_string()),
        _ => {
            let mut json = vec![b'~'];
            write_value(&mut json, id, Mode::Canonical);
            out.push_str(&String::from_utf8_lossy(&json));
        }
    }
}

/// The id that a text stands for.
pub fn id_from_text(text: &str) -> Result<ValueBuf, IdError> {
    if is_plain(text) {
        return Ok(Value::String(text).to_owned());
    }
    if let Some(id) = object_id(text) {
        return Ok(Value::ObjectId(id).to_owned());
    }
    let refuse = |reason: &str| Err(IdError(reason.to_owned()));
    match text {
        "" => refuse("Document id must not be empty"),
        "_design/" => refuse("Illegal document id `_design/`"),
        "_local/" => refuse("Illegal document id `_local/`"),
        _ if text.starts_with('_') => refuse("Only reserved document ids may start with underscore."),
        _ if text.len() > MAX_TEXT => refuse("Document id is too long"),
        // A string that was its own text was taken above.
        _ => escaped(text).ok_or_else(|| IdError("Illegal document id".to_owned())),
    }
}

/// The id whose text is a tilde and its JSON, if this is one.
fn escaped(text: &str) -> Option<ValueBuf> {
    let json = text.strip_prefix('~').filter(|json| json.len() <= MAX_TEXT)?;
    let id = parse_value_with(json.as_bytes(), Limits::default(), Dialect::Extended).ok()?;
    let mut written = String::with_capacity(text.len());
    id_to_text(id.as_value(), &mut written);
    (written == text).then_some(id)
}

/// Whether a string is its own text.
fn is_plain(text: &str) -> bool {
    match text.as_bytes().first() {
        None => false,
        // A longer one could not be told from an id that is too long to be read; the store has none.
        Some(b'~') => text.len() <= MAX_TEXT && escaped(text).is_none(),
        Some(b'_') => text.strip_prefix("_design/").is_some_and(|name| !name.is_empty()),
        _ => object_id(text).is_none(),
    }
}

/// The `ObjectId` of 24 lower-case hexadecimal digits.
fn object_id(text: &str) -> Option<ObjectId> {
    let lower = text.len() == 24 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if lower { ObjectId::parse_hex(text) } else { None }
}
