//! Converts ids of any type to text and back. The text is what URLs and the member `_id` contain.
//!
//! The text of a string is the string, and the text of an `ObjectId` is its 24 lower-case hexadecimal digits. All other
//! ids are written as a tilde and canonical Extended JSON: other types; strings that would parse as another id (24 such
//! digits, or a tilde and the JSON of such an id); and strings that CouchDB's clients may not use as ids (the empty
//! string, and those that begin with an underscore, except `_design/…`). Any other text that begins with a tilde is a
//! string, as in CouchDB. So every id has exactly one text, and every text stands for at most one id.

use super::write::{Mode, write_value};
use super::{Dialect, ErrorKind, JsonError, Limits, parse_value_with};
use crate::owned::ValueBuf;
use crate::scalar::ObjectId;
use crate::view::Value;
use std::fmt;

/// The longest text that is parsed: the longest id that the store accepts, fully escaped.
const MAX_TEXT: usize = 128 * 1024;

/// Why a text is not an id. `Display` gives CouchDB's reason where CouchDB has one.
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

/// Parses the text of an id.
pub fn id_from_text(text: &str) -> Result<ValueBuf, IdError> {
    if is_plain(text) {
        return Ok(Value::String(text).to_owned());
    }
    if let Some(id) = object_id(text) {
        return Ok(Value::ObjectId(id).to_owned());
    }
    let reject = |reason: &str| Err(IdError(reason.to_owned()));
    match text {
        "" => reject("Document id must not be empty"),
        "_design/" => reject("Illegal document id `_design/`"),
        "_local/" => reject("Illegal document id `_local/`"),
        _ if text.starts_with('_') => reject("Only reserved document ids may start with underscore."),
        _ if text.len() > MAX_TEXT => reject("Document id is too long"),
        // A plain string was returned above.
        _ => escaped(text).ok_or_else(|| IdError("Illegal document id".to_owned())),
    }
}

/// Parses a text that is a tilde and the JSON of an id that needs this form.
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
        // A longer string cannot be an escaped id, because ids of that length are not parsed; the store has none.
        Some(b'~') => text.len() <= MAX_TEXT && escaped(text).is_none(),
        Some(b'_') => text.strip_prefix("_design/").is_some_and(|name| !name.is_empty()),
        _ => object_id(text).is_none(),
    }
}

/// Parses the 24 lower-case hexadecimal digits of an `ObjectId`.
fn object_id(text: &str) -> Option<ObjectId> {
    let lower = text.len() == 24 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if lower { ObjectId::parse_hex(text) } else { None }
}
