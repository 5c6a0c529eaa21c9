//! Local documents: replicators store their checkpoints in them. They are not replicated and not in the change log.
//! Their revision is a counter.
//!
//! Stored form: the counter, then the document as BSON.

use super::{Collection, ReadView};
use crate::error::{Error, Result};
use crate::keys::{self, CollectionId, Key, read_number, write_number};
use diwan_kv::{Batch, Bytes, CommitId, Direction, KeyRange, Space};
use diwan_query::code;
use diwan_value::{Doc, DocBuf, MAX_DOCUMENT_BYTES};
use std::ops::{Bound, ControlFlow};

/// The longest name of a local document.
const MAX_NAME_BYTES: usize = 16 * 1024;

/// A local document.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalDocument {
    /// The counter. Clients see `0-` and the counter as the revision.
    pub revision: u64,
    /// The fields, without an `_id`.
    pub doc: DocBuf,
}

impl LocalDocument {
    /// Parses the stored form.
    pub(crate) fn parse(bytes: &[u8]) -> Result<LocalDocument> {
        let read = || {
            let (revision, doc) = read_number(bytes)?;
            Some(LocalDocument { revision, doc: DocBuf::validate(doc.to_vec()).ok()? })
        };
        read().ok_or_else(|| Error::Damaged("a local document".to_owned()))
    }
}

impl Collection {
    /// The local document of that name (without `_local/`).
    pub fn local(&self, name: &str) -> Result<Option<LocalDocument>> {
        let bytes = self.shared.engine.get(Space::Meta, &Key::Local(self.id, name.as_bytes()).bytes())?;
        bytes.map(|bytes| LocalDocument::parse(&bytes)).transpose()
    }

    /// Stores a local document, and replaces the one of that name. Its counter is one above `previous`, which the
    /// client gives and which is not checked, as in CouchDB.
    pub fn put_local(&self, name: &str, doc: Doc<'_>, previous: Option<u64>) -> Result<(u64, CommitId)> {
        if name.len() > MAX_NAME_BYTES || doc.as_bytes().len() > MAX_DOCUMENT_BYTES {
            return Err(Error::refused(code::BSON_OBJECT_TOO_LARGE, "the local document is too large"));
        }
        let revision = previous.unwrap_or(0).saturating_add(1);
        let mut value = Vec::with_capacity(doc.as_bytes().len() + 9);
        write_number(&mut value, revision);
        value.extend_from_slice(doc.as_bytes());
        let mut batch = Batch::new();
        // On a full disk a replicator that only transfers deletions can still store its checkpoints.
        if self.shared.engine.writable().is_err() && self.local(name)?.is_some() {
            batch.take_reserve();
        }
        batch.put(Space::Meta, Key::Local(self.id, name.as_bytes()).bytes(), value);
        Ok((revision, self.commit_unless_dropped(batch)?))
    }

    /// Deletes a local document; `None` if there is none.
    pub fn delete_local(&self, name: &str) -> Result<Option<CommitId>> {
        let key = Key::Local(self.id, name.as_bytes()).bytes();
        if self.shared.engine.get(Space::Meta, &key)?.is_none() {
            return Ok(None);
        }
        let mut batch = Batch::new();
        batch.take_reserve();
        batch.delete(Space::Meta, key);
        self.commit_unless_dropped(batch).map(Some)
    }
}

impl ReadView {
    /// Passes the local documents whose names lie between the bounds to `show`, in byte order, until it breaks.
    pub fn scan_local(
        &self,
        from: Bound<&str>,
        to: Bound<&str>,
        direction: Direction,
        show: &mut dyn FnMut(&str, LocalDocument) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let prefix = keys::locals_prefix(self.collection().id);
        let whole = KeyRange::prefix(&prefix);
        let range = KeyRange::new(
            bound(self.collection().id, from, whole.start),
            bound(self.collection().id, to, whole.end),
        );
        if range.is_empty() {
            return Ok(());
        }
        for pair in self.snapshot().scan(Space::Meta, range, direction) {
            let (key, value) = pair?;
            let name = key.get(prefix.len()..).and_then(|name| std::str::from_utf8(name).ok());
            let name = name.ok_or_else(|| Error::Damaged(keys::describe(Space::Meta, &key)))?;
            if show(name, LocalDocument::parse(&value)?)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn bound(collection: CollectionId, name: Bound<&str>, open: Bound<Bytes>) -> Bound<Bytes> {
    match name {
        Bound::Unbounded => open,
        Bound::Included(name) => Bound::Included(Key::Local(collection, name.as_bytes()).bytes().into()),
        Bound::Excluded(name) => Bound::Excluded(Key::Local(collection, name.as_bytes()).bytes().into()),
    }
}
