//! Parses documents as CouchDB's clients send them: members that begin with an underscore are separated from the body.
//!
//! CouchDB reserves top-level names that begin with an underscore, but MongoDB's users have such fields. Over HTTP they
//! carry a dollar prefix: the field `_class` is sent as `$_class`. No other top-level name may begin with a dollar, so
//! the renaming can always be undone. The state members that CouchDB's replicator writes into its documents keep their
//! names on both sides.

use super::read::Reader;
use super::{Dialect, ErrorKind, JsonError, Limits};
use crate::element::Type;
use crate::owned::DocBuf;
use crate::view::{Doc, Value};

/// Fields that keep their leading underscore on both sides.
pub(super) const UNDERSCORED: [&str; 5] = [
    "_replication_state",
    "_replication_state_time",
    "_replication_state_reason",
    "_replication_id",
    "_replication_stats",
];

/// Members that the server adds to its responses and ignores in requests.
const IGNORED: [&str; 4] = ["_revs_info", "_local_seq", "_conflicts", "_deleted_conflicts"];

/// The error for a revision that CouchDB accepts and Diwan cannot store.
pub const UNSTORABLE_REVISION: &str =
    "Invalid rev format: a revision here has 32 hexadecimal digits or at most 10 other characters";

/// Whether a top-level member is metadata and not a field of the document. All names that begin with an underscore are
/// metadata, except `_id` and the few that are stored as fields.
pub fn is_metadata_member(name: &str) -> bool {
    name.starts_with('_') && name != "_id" && !UNDERSCORED.contains(&name)
}

/// A document as sent by a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CouchDoc<'t> {
    /// `_id`, not yet validated.
    pub id: Option<String>,
    /// `_rev`, not yet validated.
    pub rev: Option<String>,
    /// `_deleted`.
    pub deleted: bool,
    /// `_revisions`.
    pub revisions: Option<Revisions>,
    /// `_attachments`: the text of the object. Its syntax was checked.
    pub attachments: Option<&'t [u8]>,
    /// All other members, without `_id`.
    pub body: DocBuf,
}

/// A revision and its ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revisions {
    /// The generation of the newest revision.
    pub start: u64,
    /// The hashes or short texts, newest first, as [`super::parse_hash`] returns them.
    pub ids: Vec<[u8; 16]>,
}

/// Parses text that is exactly one document as CouchDB's clients send it. Attachments do not count towards the size.
pub fn parse_couch(text: &[u8], limits: Limits, dialect: Dialect) -> Result<CouchDoc<'_>, JsonError> {
    let mut reader = Reader::new(text, limits, dialect)?;
    reader.skip_space();
    if reader.peek() != Some(b'{') {
        // A syntax error takes precedence over the wrong type.
        reader.skip_value(1)?;
        reader.end_of_text()?;
        return Err(JsonError::new(ErrorKind::BadRequest, 0, "Document must be a JSON object"));
    }
    let mut doc = CouchDoc {
        id: None,
        rev: None,
        deleted: false,
        revisions: None,
        attachments: None,
        body: DocBuf::trusted(Vec::new()),
    };
    let start = reader.begin(1)?;
    let mut more = !reader.ends_at_once(b'}');
    while more {
        let (element, position) = reader.name()?;
        match reader.out.get(element + 1) {
            Some(b'_') => doc.special(&mut reader, element, position)?,
            Some(b'$') => renamed(&mut reader, element, position)?,
            _ => reader.out[element] = reader.value(2)? as u8,
        }
        more = reader.another_follows(b'}')?;
    }
    reader.close(start, 0);
    reader.end_of_text()?;
    reader.check_limits(Type::Document)?;
    doc.body = DocBuf::trusted(reader.finish());
    Ok(doc)
}

impl<'t> CouchDoc<'t> {
    /// Parses the value of a member whose name begins with an underscore.
    fn special(&mut self, reader: &mut Reader<'t>, element: usize, position: usize) -> Result<(), JsonError> {
        let name = name_at(reader, element);
        if UNDERSCORED.contains(&name.as_str()) {
            reader.out[element] = reader.value(2)? as u8;
            return Ok(());
        }
        let reject = |kind, message: &str| Err(JsonError::new(kind, position, message));
        let unknown = || {
            Err(JsonError::new(
                ErrorKind::DocValidation,
                position,
                format!("Bad special document member: {name}"),
            ))
        };
        reader.remove_last(element);
        if name == "_attachments" {
            let text = reader.skip_value(2)?;
            if text.first() != Some(&b'{') {
                return unknown();
            }
            self.attachments = Some(text);
            return Ok(());
        }
        if IGNORED.contains(&name.as_str()) {
            return reader.skip_value(2).map(|_| ());
        }
        // The value is parsed like any other, then removed from the body.
        let tag = reader.value(2)?;
        let raw = crate::element::RawValue { tag, bytes: &reader.out[element..] };
        match (name.as_str(), raw.decode().unwrap_or(Value::Null)) {
            ("_id", Value::String(id)) => self.id = Some(id.to_owned()),
            ("_id", _) => return reject(ErrorKind::IllegalId, "Document id must be a string"),
            ("_rev", Value::String(rev)) => self.rev = Some(rev.to_owned()),
            ("_rev", _) => return reject(ErrorKind::BadRequest, "Invalid rev format"),
            ("_deleted", Value::Boolean(deleted)) => self.deleted = deleted,
            ("_revisions", Value::Document(given)) => match revisions(given) {
                Ok(revisions) => self.revisions = Some(revisions),
                Err((kind, message)) => return reject(kind, message),
            },
            _ => return unknown(),
        }
        reader.out.truncate(element);
        Ok(())
    }
}

/// Parses the value of a member whose name begins with a dollar, and removes the dollar from the name.
fn renamed(reader: &mut Reader<'_>, element: usize, position: usize) -> Result<(), JsonError> {
    let name = name_at(reader, element);
    let field = &name[1..];
    if !is_metadata_member(field) {
        let message = format!("Bad special document member: {name}");
        return Err(JsonError::new(ErrorKind::Reserved, position, message));
    }
    // The fingerprint stays that of the name with its dollar, which is the same for every spelling of the renamed name.
    reader.out.remove(element + 1);
    reader.out[element] = reader.value(2)? as u8;
    Ok(())
}

/// The name of the element that begins at `element`, whose value is not parsed yet.
fn name_at(reader: &Reader<'_>, element: usize) -> String {
    let name = &reader.out[element + 1..reader.out.len() - 1];
    String::from_utf8_lossy(name).into_owned()
}

fn revisions(given: Doc<'_>) -> Result<Revisions, (ErrorKind, &'static str)> {
    let invalid = |message| (ErrorKind::DocValidation, message);
    let start = match given.get("start") {
        Some(Value::Int32(start)) => u64::try_from(start).ok(),
        Some(Value::Int64(start)) => u64::try_from(start).ok(),
        _ => None,
    };
    let start = start.ok_or(invalid("_revisions.start isn't an integer."))?;
    let ids = given.get_array("ids").ok_or(invalid("_revisions.ids isn't a array."))?;
    let ids = ids.iter().map(|id| {
        let id = id.as_str().ok_or(invalid("RevId isn't a string"))?;
        // CouchDB accepts any text except one that has the length of a hash and is not one.
        super::parse_hash(id).ok_or(match id.len() {
            32 => invalid("RevId isn't a valid hexadecimal"),
            _ => (ErrorKind::Unstorable, UNSTORABLE_REVISION),
        })
    });
    Ok(Revisions { start, ids: ids.collect::<Result<_, _>>()? })
}
