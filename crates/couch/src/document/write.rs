//! Formats documents as JSON: `_id`, `_rev`, the fields, then the requested metadata, attachments last.
//!
//! Lists use [`write_record`], which reads the record's bytes and allocates nothing besides the output buffer.
//! [`write_doc`] handles all other cases and streams attachments in pieces.

use super::attachments;
use super::ids::write_id;
use super::options::Show;
use super::revs::{push_rev, write_rev};
use crate::error::Result;
use crate::http::RowWriter;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use diwan_query::{Gate, LARGE, Pass};
use diwan_store::blob::{Attachment, BlobForm, Encoding};
use diwan_store::{ReadView, Record, RevisedDocument, Revision, RevisionTree};
use diwan_value::json::{Mode, push_hash, write_couch_members_as, write_string};
use diwan_value::{Doc, Value};
use std::io::{self, Read, Write};

/// A target for JSON. Text is appended to a buffer; a long value is given as a reader, which may be read later, when
/// it is sent.
pub(crate) trait Output {
    /// The buffer.
    fn buffer(&mut self) -> &mut Vec<u8>;
    /// Appends everything that the reader yields.
    fn splice(&mut self, reader: impl Read + Send + 'static) -> io::Result<()>;
}

impl Output for Vec<u8> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self
    }

    fn splice(&mut self, mut reader: impl Read + Send + 'static) -> io::Result<()> {
        reader.read_to_end(self).map(drop)
    }
}

impl Output for RowWriter {
    fn buffer(&mut self) -> &mut Vec<u8> {
        RowWriter::buffer(self)
    }

    fn splice(&mut self, reader: impl Read + Send + 'static) -> io::Result<()> {
        RowWriter::splice(self, reader);
        Ok(())
    }
}

/// How many bytes are held by those who write large documents, each until it has been written.
static LARGE_DOCUMENTS: Gate = Gate::new(64 << 20);

/// Waits for leave to write a document, and makes room for it at once: a buffer that grows by itself may become twice as
/// large as what it holds.
#[inline]
fn begin(out: &mut Vec<u8>, doc: Doc<'_>) -> Option<Pass<'static>> {
    let bytes = doc.as_bytes().len();
    if bytes < LARGE {
        return None;
    }
    let pass = LARGE_DOCUMENTS.enter(2 * bytes);
    out.reserve_exact(bytes + bytes / 16);
    pass
}

/// Begins an object with `_id`, `_rev`, the fields and, for a deletion, `_deleted`. The caller closes it.
#[inline]
fn write_fields(
    out: &mut Vec<u8>,
    id: Value<'_>,
    revision: &Revision,
    deleted: bool,
    doc: Doc<'_>,
    mode: Mode,
) {
    out.extend_from_slice(br#"{"_id":"#);
    write_id(out, id);
    out.extend_from_slice(br#","_rev":"#);
    write_rev(out, revision);
    write_couch_members_as(out, doc, mode);
    if deleted {
        out.extend_from_slice(br#","_deleted":true"#);
    }
}

/// Writes a stored document as lists show it, with attachments as stubs.
#[inline]
pub(crate) fn write_record(out: &mut Vec<u8>, record: &Record<'_>) -> Result<()> {
    let id = record.doc.get("_id").unwrap_or(Value::Null);
    let _pass = begin(out, record.doc);
    write_fields(out, id, &record.revision(), false, record.doc, Mode::Exchange);
    if record.has_attachments() {
        write_stubs(out, &record.attachments()?);
    }
    out.push(b'}');
    Ok(())
}

/// Writes the `_attachments` member with stubs.
pub(crate) fn write_stubs(out: &mut Vec<u8>, attachments: &[Attachment]) {
    out.extend_from_slice(br#","_attachments":{"#);
    for (at, attachment) in attachments.iter().enumerate() {
        begin_attachment(out, at, attachment);
        write_length(out, attachment, "stub");
        out.push(b'}');
    }
    out.push(b'}');
}

/// Writes one revision of a document with the parts that `show` selects.
pub(crate) fn write_doc(
    out: &mut impl Output,
    view: &ReadView,
    id: &[u8],
    doc: &RevisedDocument,
    show: &Show,
) -> Result<()> {
    let buffer = out.buffer();
    let mode = if show.exact_integers { Mode::Relaxed } else { Mode::Exchange };
    let pass = begin(buffer, doc.doc.as_doc());
    write_fields(buffer, doc.id(), &doc.revision, doc.deleted, doc.doc.as_doc(), mode);
    drop(pass);
    // A first revision without branches has no other revisions, so its tree need not be read.
    let is_alone = doc.revision.generation == 1 && !doc.has_branches;
    let wants_tree = show.revs
        || show.revs_info
        || ((show.conflicts || show.deleted_conflicts) && doc.has_branches)
        || (!show.atts_since.is_empty() && !doc.attachments.is_empty());
    let tree = if wants_tree && !is_alone { view.tree(id)? } else { None };
    let path = match &tree {
        Some(tree) => tree.path(&doc.revision),
        None => vec![doc.revision],
    };
    if show.revs {
        // A lowered revision limit also applies to revisions stored before.
        let limit = view.collection().revision_limit() as usize;
        write_revisions(buffer, &path[..path.len().min(limit.max(1))]);
    }
    if show.revs_info {
        write_revs_info(buffer, view, id, doc, &path)?;
    }
    if show.local_seq {
        buffer.extend_from_slice(br#","_local_seq":"#);
        let _ = write!(buffer, "{}", doc.sequence);
    }
    if let Some(tree) = &tree {
        if show.conflicts {
            write_conflicts(buffer, "_conflicts", &others(tree, doc, false));
        }
        if show.deleted_conflicts {
            write_conflicts(buffer, "_deleted_conflicts", &others(tree, doc, true));
        }
    }
    if !doc.attachments.is_empty() {
        let since = attachments::known_since(&path, &show.atts_since);
        write_attachments(out, view, &doc.attachments, show, since)?;
    }
    out.buffer().push(b'}');
    Ok(())
}

/// The leaves other than the shown revision.
fn others(tree: &RevisionTree, doc: &RevisedDocument, deleted: bool) -> Vec<Revision> {
    tree.leaves()
        .iter()
        .filter(|leaf| leaf.deleted == deleted && leaf.revision != doc.revision)
        .map(|leaf| leaf.revision)
        .collect()
}

fn write_revisions(out: &mut Vec<u8>, path: &[Revision]) {
    out.extend_from_slice(br#","_revisions":{"start":"#);
    let _ = write!(out, "{}", path.first().map_or(0, |newest| newest.generation));
    out.extend_from_slice(br#","ids":["#);
    for (at, revision) in path.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"\"" } else { b",\"" });
        push_hash(out, &revision.hash);
        out.push(b'"');
    }
    out.extend_from_slice(b"]}");
}

fn write_revs_info(
    out: &mut Vec<u8>,
    view: &ReadView,
    id: &[u8],
    doc: &RevisedDocument,
    path: &[Revision],
) -> Result<()> {
    out.extend_from_slice(br#","_revs_info":["#);
    for (at, revision) in path.iter().enumerate() {
        let status = match *revision == doc.revision {
            true if doc.deleted => "deleted",
            true => "available",
            false => match view.revision(id, *revision)? {
                Some(older) if older.deleted => "deleted",
                Some(_) => "available",
                None => "missing",
            },
        };
        out.extend_from_slice(if at == 0 { br#"{"rev":""# } else { br#",{"rev":""# });
        push_rev(out, revision);
        let _ = write!(out, r#"","status":"{status}"}}"#);
    }
    out.push(b']');
    Ok(())
}

fn write_conflicts(out: &mut Vec<u8>, name: &str, revisions: &[Revision]) {
    if revisions.is_empty() {
        return;
    }
    let _ = write!(out, r#","{name}":["#);
    for (at, revision) in revisions.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_rev(out, revision);
    }
    out.push(b']');
}

fn write_attachments(
    out: &mut impl Output,
    view: &ReadView,
    list: &[Attachment],
    show: &Show,
    since: Option<u32>,
) -> Result<()> {
    out.buffer().extend_from_slice(br#","_attachments":{"#);
    for (at, attachment) in list.iter().enumerate() {
        begin_attachment(out.buffer(), at, attachment);
        if !show.attachments || since.is_some_and(|since| attachment.revpos <= since) {
            write_length(out.buffer(), attachment, "stub");
        } else if show.follows {
            write_length(out.buffer(), attachment, "follows");
        } else {
            out.buffer().extend_from_slice(br#","data":""#);
            let reader = attachments::open(view.collection(), attachment, BlobForm::Identity, None)?;
            out.splice(Base64::new(reader))?;
            out.buffer().push(b'"');
        }
        if show.att_encoding_info && attachment.encoding == Some(Encoding::Gzip) {
            let _ =
                write!(out.buffer(), r#","encoding":"gzip","encoded_length":{}"#, attachment.encoded_length);
        }
        out.buffer().push(b'}');
    }
    out.buffer().push(b'}');
    Ok(())
}

fn begin_attachment(out: &mut Vec<u8>, at: usize, attachment: &Attachment) {
    if at > 0 {
        out.push(b',');
    }
    write_string(out, &attachment.name);
    out.extend_from_slice(br#":{"content_type":"#);
    write_string(out, &attachment.content_type);
    let digest = STANDARD.encode(attachment.md5);
    let _ = write!(out, r#","revpos":{},"digest":"md5-{digest}""#, attachment.revpos);
}

fn write_length(out: &mut Vec<u8>, attachment: &Attachment, kind: &str) {
    let _ = write!(out, r#","length":{},"{kind}":true"#, attachment.length);
}

/// Encodes a reader's bytes as base64.
struct Base64<R> {
    inner: R,
    /// The bytes of the last read.
    bytes: Vec<u8>,
    /// Their encoded text.
    text: Vec<u8>,
    /// How much of the text has been returned.
    taken: usize,
    ended: bool,
}

impl<R: Read> Base64<R> {
    fn new(inner: R) -> Base64<R> {
        Base64 { inner, bytes: Vec::new(), text: Vec::new(), taken: 0, ended: false }
    }

    fn fill(&mut self) -> io::Result<()> {
        // A multiple of three, so that only the last piece needs padding.
        const PIECE: usize = 24 << 10;
        self.bytes.clear();
        self.inner.by_ref().take(PIECE as u64).read_to_end(&mut self.bytes)?;
        self.ended = self.bytes.len() < PIECE;
        self.text.resize(self.bytes.len().div_ceil(3) * 4, 0);
        let written = STANDARD
            .encode_slice(&self.bytes, &mut self.text)
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.text.truncate(written);
        self.taken = 0;
        Ok(())
    }
}

impl<R: Read> Read for Base64<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.text.len() && !self.ended {
            self.fill()?;
        }
        let rest = &self.text[self.taken..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}
