//! Parsing of `_attachments`: inline data, stubs of stored attachments, and attachments whose bytes follow in other
//! parts of the request.
//!
//! Bytes are written to blobs as they are read. [`Attaching`] holds the blobs until the document's edit is committed.

use super::packing;
use crate::error::{Error, Result};
use crate::http::multipart::{Multipart, file_name, parameter};
use crate::server::Couch;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use diwan_store::blob::{
    Attachment, BlobForm, BlobHold, BlobReader, BlobSource, BlobWriter, StagedBlob, THIS_EDIT,
};
use diwan_store::{Collection, Error as StoreError, Revision};
use diwan_value::json::{Limits, parse_document};
use diwan_value::{Doc, Value};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;

/// The media type of attachments that state none.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// How many bytes are copied at once.
const PIECE: usize = 64 << 10;

/// The attachments of a document after an edit, protected from garbage collection until the edit is committed.
#[derive(Default)]
pub(crate) struct Attaching {
    /// All attachments.
    pub(crate) list: Vec<Attachment>,
    staged: Vec<StagedBlob>,
    held: Vec<BlobHold>,
}

impl Attaching {
    /// Keeps an attachment of a stored revision.
    pub(crate) fn keep(&mut self, collection: &Collection, attachment: Attachment) -> Result<()> {
        let hold = collection.hold_blob(attachment.blob)?.ok_or_else(|| missing_blob(&attachment))?;
        self.held.push(hold);
        self.list.push(attachment);
        Ok(())
    }

    /// Adds an attachment whose bytes were just stored.
    pub(crate) fn add(&mut self, name: &str, content_type: &str, revpos: u32, blob: StagedBlob) {
        self.list.push(blob.attachment(name, content_type, revpos));
        self.staged.push(blob);
    }
}

/// The parts of a request after the document's.
pub(crate) type Parts<'a> = Multipart<&'a mut dyn Read>;

/// One member of `_attachments`, parsed.
#[derive(Clone, Debug, PartialEq)]
struct Described<'d> {
    name: &'d str,
    content_type: &'d str,
    revpos: Option<u32>,
    digest: Option<[u8; 16]>,
    packed: bool,
    /// The `length` member.
    length: Option<u64>,
    /// The number of bytes that should follow, if stated.
    follows_length: Option<u64>,
    source: Source<'d>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Source<'d> {
    Stub,
    Follows,
    Inline(&'d str),
}

/// Reads the attachments of one document.
pub(crate) struct Incoming<'a> {
    /// The server's state.
    pub(crate) couch: &'a Couch,
    /// The database.
    pub(crate) collection: &'a Arc<Collection>,
    /// The document's id, for error messages.
    pub(crate) id: &'a str,
    /// With `new_edits=false` the generations stated in the document are kept.
    pub(crate) replicated: bool,
}

impl Incoming<'_> {
    /// Reads the `_attachments` member. `previous` returns the attachments of the parent revision, which stubs refer
    /// to; `parts` are the parts of the request after the document.
    pub(crate) fn read(
        &self,
        text: &[u8],
        previous: &dyn Fn() -> Result<Option<Vec<Attachment>>>,
        parts: Option<&mut Parts<'_>>,
    ) -> Result<Attaching> {
        let list = parse_document(text, Limits { bytes: text.len() * 4 + 64, ..Limits::default() })?;
        let described = list
            .as_doc()
            .iter()
            // Like CouchDB, ignore members that are not objects.
            .filter_map(|element| Some(describe(element.key_str(), element.value().as_doc()?)))
            .collect::<Result<Vec<_>>>()?;
        // Parts follow in any order, so attachments are first assigned to slots.
        let mut slots: Vec<Option<Slot>> = Vec::with_capacity(described.len());
        let mut before = None;
        for attachment in &described {
            slots.push(match attachment.source {
                Source::Stub => {
                    if before.is_none() {
                        before = Some(previous()?.ok_or_else(|| self.no_previous())?);
                    }
                    let known = before.iter().flatten().find(|known| self.is_stub_of(attachment, known));
                    let known = known.ok_or_else(|| self.missing_stub(attachment))?.clone();
                    let hold = self.collection.hold_blob(known.blob)?;
                    Some(Slot::Kept(known, hold.ok_or_else(|| self.missing_stub(attachment))?))
                }
                Source::Inline(data) => {
                    let bytes = decode(data).ok_or_else(|| {
                        Error::bad_request(format!("Invalid attachment data for {}", attachment.name))
                    })?;
                    let reader = &mut bytes.as_slice();
                    Some(Slot::Staged(
                        stream(self.couch, self.collection, attachment.content_type, false, reader)?.0,
                    ))
                }
                Source::Follows => None,
            });
        }
        // Slots that are still empty are filled from the parts that follow.
        self.read_parts(&described, &mut slots, parts)?;
        let mut attaching = Attaching::default();
        for (attachment, slot) in described.iter().zip(slots) {
            let revpos = if self.replicated { attachment.revpos.unwrap_or(0) } else { THIS_EDIT };
            match slot {
                Some(Slot::Kept(known, hold)) => {
                    attaching.list.push(known);
                    attaching.held.push(hold);
                }
                Some(Slot::Staged(blob)) => {
                    attaching.add(attachment.name, attachment.content_type, revpos, blob);
                }
                None => {
                    let message =
                        format!("The attachment {} was announced but does not follow", attachment.name);
                    return Err(Error::bad_request(message));
                }
            }
        }
        Ok(attaching)
    }

    /// Reads the parts that follow. A part is assigned by its file name, or else in the order of the announcements.
    fn read_parts(
        &self,
        described: &[Described<'_>],
        slots: &mut [Option<Slot>],
        parts: Option<&mut Parts<'_>>,
    ) -> Result<()> {
        let Some(parts) = parts else { return Ok(()) };
        while slots.iter().any(Option::is_none) {
            let Some(headers) = parts.next_part()? else { break };
            let named = headers.get("content-disposition").and_then(|value| parameter(value, "filename"));
            let waiting = |at: &usize| slots[*at].is_none();
            let at = (0..slots.len())
                .filter(waiting)
                .find(|&at| named.as_ref().is_some_and(|name| *name == file_name(described[at].name)))
                .or_else(|| (0..slots.len()).find(waiting));
            let Some(at) = at else { break };
            let attachment = &described[at];
            let packed = attachment.packed || headers.get("content-encoding") == Some("gzip");
            let (mut blob, received) =
                stream(self.couch, self.collection, attachment.content_type, packed, parts)?;
            if packed && attachment.length.is_none_or(|length| length == blob.encoded_length) {
                forget_length(&mut blob);
            }
            if let Some(length) = attachment.follows_length
                && length != received
            {
                let how = if received < length { "shorter" } else { "longer" };
                return Err(Error::bad_request(format!("attachment {how} than expected")));
            }
            if attachment.digest.is_some_and(|digest| digest != blob.received_md5) {
                return Err(Error::content_md5_mismatch("Possible message corruption."));
            }
            slots[at] = Some(Slot::Staged(blob));
        }
        Ok(())
    }

    /// Whether a stub refers to this attachment: the names are equal, and so are the generations if the stub states
    /// one.
    fn is_stub_of(&self, stub: &Described<'_>, known: &Attachment) -> bool {
        known.name == stub.name && stub.revpos.is_none_or(|revpos| revpos == known.revpos)
    }

    fn missing_stub(&self, stub: &Described<'_>) -> Error {
        Error::missing_stub(format!("Invalid attachment stub in {} for {}", self.id, stub.name))
    }

    fn no_previous(&self) -> Error {
        Error::missing_stub(format!("Previous revision missing for document {}", self.id))
    }
}

enum Slot {
    Kept(Attachment, BlobHold),
    Staged(StagedBlob),
}

/// Parses one member of `_attachments`.
fn describe<'d>(name: &'d str, doc: Doc<'d>) -> Result<Described<'d>> {
    // Like CouchDB, accept an empty name here, although no path can name such an attachment.
    if !name.is_empty() {
        check_name(name)?;
    }
    let flag = |member: &str| doc.get(member) == Some(Value::Boolean(true));
    let number = |member: &str| doc.get(member).and_then(Value::as_i64_exact);
    let packed = packing(name, doc)?;
    let source = if flag("stub") {
        Source::Stub
    } else if flag("follows") {
        Source::Follows
    } else {
        let data = doc
            .get_str("data")
            .ok_or_else(|| Error::bad_request(format!("Invalid attachment data for {name}")))?;
        Source::Inline(data)
    };
    let own_length = number("length").and_then(|length| u64::try_from(length).ok());
    let length = number("encoded_length").filter(|_| packed).or_else(|| number("length"));
    Ok(Described {
        name,
        content_type: doc.get_str("content_type").unwrap_or(UNKNOWN_TYPE),
        revpos: number("revpos").and_then(|revpos| u32::try_from(revpos).ok()),
        digest: doc.get_str("digest").and_then(digest),
        packed: packed && source == Source::Follows,
        length: own_length,
        follows_length: length.and_then(|length| u64::try_from(length).ok()),
        source,
    })
}

fn packing(name: &str, doc: Doc<'_>) -> Result<bool> {
    match doc.get_str("encoding") {
        None | Some("identity") => Ok(false),
        Some("gzip") => Ok(true),
        Some(other) => Err(Error::bad_content_type(format!(
            "Only gzip and identity content-encodings are supported, not '{other}' of {name}"
        ))),
    }
}

/// Sets the length of a compressed attachment to its compressed length, as CouchDB does if the sender did not state
/// the uncompressed length.
pub(crate) fn forget_length(blob: &mut StagedBlob) {
    blob.length = blob.encoded_length;
}

/// Refuses an invalid attachment name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.starts_with('_') {
        let message = format!("Attachment name '{name}' starts with prohibited character '_'");
        return Err(Error::bad_request(message));
    }
    if name.is_empty() || name.contains('\0') {
        return Err(Error::bad_request("Attachment name must not be empty, nor contain a NUL"));
    }
    Ok(())
}

/// Parses a digest of the form `md5-…`.
fn digest(text: &str) -> Option<[u8; 16]> {
    STANDARD.decode(text.strip_prefix("md5-")?).ok()?.try_into().ok()
}

/// Decodes base64, ignoring whitespace.
fn decode(data: &str) -> Option<Vec<u8>> {
    STANDARD.decode(data).ok().or_else(|| {
        let dense: Vec<u8> = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        STANDARD.decode(dense).ok()
    })
}

/// Stores the reader's bytes and returns the blob and the number of bytes read. `packed` means that the bytes are a
/// gzip stream.
pub(crate) fn stream(
    couch: &Couch,
    collection: &Arc<Collection>,
    content_type: &str,
    packed: bool,
    reader: &mut (impl Read + ?Sized),
) -> Result<(StagedBlob, u64)> {
    let source = match packed {
        true => BlobSource::Packed,
        false => packing::source(couch, content_type),
    };
    let mut writer = collection.blob_writer(source)?;
    copy(reader, &mut writer)?;
    let received = writer.received();
    Ok((writer.finish()?, received))
}

fn copy(reader: &mut (impl Read + ?Sized), writer: &mut BlobWriter) -> Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = match reader.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        writer.write_all(&piece[..count])?;
    }
}

/// Opens the bytes of an attachment.
pub(crate) fn open(
    collection: &Arc<Collection>,
    attachment: &Attachment,
    form: BlobForm,
    range: Option<Range<u64>>,
) -> Result<BlobReader> {
    collection.read_blob(attachment, form, range)?.ok_or_else(|| missing_blob(attachment))
}

fn missing_blob(attachment: &Attachment) -> Error {
    Error::from(StoreError::Damaged(format!("the blob of attachment '{}' is missing", attachment.name)))
}

/// Returns the newest generation in `path` that a client with the revisions `since` has. The client knows the
/// attachments up to that generation.
pub(crate) fn known_since(path: &[Revision], since: &[Revision]) -> Option<u32> {
    if since.is_empty() {
        return None;
    }
    path.iter().find(|revision| since.contains(revision)).map(|revision| revision.generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(json: &str) -> Result<bool> {
        let list = parse_document(json.as_bytes(), Limits::default())?;
        list.as_doc()
            .iter()
            .filter_map(|element| Some((element.key_str(), element.value().as_doc()?)))
            .map(|(name, doc)| describe(name, doc).map(|found| found.packed))
            .next()
            .unwrap_or(Ok(false))
    }

    #[test]
    fn describe_refuses_malformed_members() {
        for (json, reason) in [
            (r#"{"_a":{"data":""}}"#, "Attachment name '_a' starts with prohibited character '_'"),
            (r#"{"a":{}}"#, "Invalid attachment data for a"),
            (r#"{"a":{"data":1}}"#, "Invalid attachment data for a"),
        ] {
            assert_eq!(described(json).unwrap_err().reason, reason, "{json}");
        }
        assert_eq!(described(r#"{"a":{"stub":true,"encoding":"zip"}}"#).unwrap_err().status, 415);
        assert!(described(r#"{"a":{"follows":true,"encoding":"gzip"}}"#).unwrap());
        assert!(!described(r#"{"a":{"data":"","encoding":"gzip"}}"#).unwrap());
        assert_eq!(decode("aGVs\r\n bG8=").unwrap(), b"hello");
        assert!(decode("aGVsbG8").is_none() && decode("!").is_none());
        assert_eq!(digest("md5-1B2M2Y8AsgTpgAmY7PhCfg==").unwrap()[0], 0xd4);
    }

    #[test]
    fn known_since_returns_the_newest_common_generation() {
        let revision = |generation, byte| Revision { generation, hash: [byte; 16] };
        let path = [revision(3, 3), revision(2, 2), revision(1, 1)];
        assert_eq!(known_since(&path, &[]), None);
        assert_eq!(known_since(&path, &[revision(2, 9)]), None);
        assert_eq!(known_since(&path, &[revision(1, 1), revision(2, 2)]), Some(2));
    }
}
