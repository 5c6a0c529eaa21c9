//! Reading a collection: views of it as of one moment, and stored documents.

use super::{Collection, Schema, split_unique_value};
use crate::change::Change;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::keys::{self, Key, read_number};
use crate::record::Record;
use diwan_kv::{Bytes, Direction, Engine, KeyRange, MemoryEngine, Snapshot, Space};
use diwan_value::Doc;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// A document as read from the store: the record's bytes, shared with the engine's cache.
#[derive(Clone, Debug)]
pub struct StoredDocument {
    bytes: Bytes,
}

impl StoredDocument {
    pub(crate) fn new(bytes: Bytes) -> Result<StoredDocument> {
        Record::parse(&bytes)?;
        Ok(StoredDocument { bytes })
    }

    /// The record's bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The record.
    pub fn record(&self) -> Record<'_> {
        // The constructor has parsed the bytes, so this cannot fail.
        Record::parse(&self.bytes).unwrap_or_else(|_| Record::empty())
    }

    /// The document.
    pub fn doc(&self) -> Doc<'_> {
        self.record().doc
    }
}

/// One entry of an index, split into its parts.
#[derive(Clone, Debug)]
pub(crate) struct IndexEntry {
    /// The key bytes, without the index's prefix and without the id.
    pub key: Vec<u8>,
    /// The key bytes of the document's `_id`.
    pub id: Vec<u8>,
}

/// A collection as of one moment.
pub struct ReadView {
    /// The options and indexes.
    pub schema: Arc<Schema>,
    snapshot: Box<dyn Snapshot>,
    collection: Arc<Collection>,
    prefix: Vec<u8>,
}

impl Collection {
    /// A view of the collection as of now. A dropped collection is empty, even if its keys are not deleted yet.
    pub fn view(self: &Arc<Self>) -> ReadView {
        let take = |schema: &Schema| match schema.dropped {
            true => MemoryEngine::new().snapshot(),
            false => self.shared.engine.snapshot(),
        };
        let (schema, snapshot) = match self.shared.has_peers() {
            false => {
                // The schema is locked until the snapshot is taken, so that no index of it is dropped and emptied in
                // between.
                let schema = self.schema.read();
                (schema.clone(), take(&schema))
            }
            true => {
                // Another process may drop an index at any moment, so its keys stay for a while.
                let schema = self.schema();
                let snapshot = take(&schema);
                (schema, snapshot)
            }
        };
        ReadView { schema, snapshot, collection: self.clone(), prefix: keys::collection_prefix(self.id) }
    }

    /// The document with this id as of now, without a view.
    pub fn get(&self, id: &[u8]) -> Result<Option<StoredDocument>> {
        let bytes = self.shared.engine.get(Space::Records, &Key::Record(self.id, id).bytes())?;
        bytes.map(StoredDocument::new).transpose()
    }
}

impl ReadView {
    /// The collection.
    pub fn collection(&self) -> &Arc<Collection> {
        &self.collection
    }

    /// The engine's snapshot, for scans of raw ranges.
    pub fn snapshot(&self) -> &dyn Snapshot {
        self.snapshot.as_ref()
    }

    /// The document with this id.
    pub fn get(&self, id: &[u8]) -> Result<Option<StoredDocument>> {
        let bytes = self.snapshot.get(Space::Records, &Key::Record(self.collection.id, id).bytes())?;
        bytes.map(StoredDocument::new).transpose()
    }

    /// The entries of a raw range of an index.
    pub(crate) fn scan_index(
        &self,
        index: &Arc<Index>,
        range: KeyRange,
        direction: Direction,
    ) -> impl Iterator<Item = Result<IndexEntry>> + Send + use<> {
        let index = index.clone();
        self.snapshot.scan(Space::Indexes, range, direction).map(move |pair| {
            let (key, value) = pair?;
            let entry = RawEntry::new(&index, &key, &value)?;
            let (key, id) = entry.split(&index)?;
            Ok(IndexEntry { key: key.to_vec(), id: id.to_vec() })
        })
    }

    /// Passes the documents whose ids' key bytes lie in `ids` to `show`, in their order, until it breaks.
    pub fn documents(
        &self,
        ids: &KeyRange,
        direction: Direction,
        show: &mut dyn FnMut(&[u8], Record<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let whole = KeyRange::prefix(&self.prefix);
        let place = |id: &Bytes| Bytes::from([self.prefix.as_slice(), id].concat());
        let or = |bound: &Bound<Bytes>, open: Bound<Bytes>| match bound {
            Bound::Unbounded => open,
            bound => bound.as_ref().map(place),
        };
        let range = KeyRange::new(or(&ids.start, whole.start), or(&ids.end, whole.end));
        if range.is_empty() {
            return Ok(());
        }
        let mut failure = None;
        let mut step = |key: &[u8], value: &[u8]| match Record::parse(value) {
            Ok(record) => show(key.get(self.prefix.len()..).unwrap_or_default(), record),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        };
        match direction {
            Direction::Forward => self.snapshot.visit(Space::Records, range, &mut step)?,
            Direction::Reverse => {
                for pair in self.snapshot.scan(Space::Records, range, direction) {
                    let (key, value) = pair?;
                    if step(&key, &value).is_break() {
                        break;
                    }
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// How many entries the change log has after sequence `since`. Stops counting at `most`.
    pub fn changes_left(&self, since: u64, most: u64) -> Result<u64> {
        let mut count = 0;
        if most > 0 {
            let range = keys::changes_after(self.collection.id, since);
            self.snapshot.visit(Space::Log, range, &mut |_, _| {
                count += 1;
                if count < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        Ok(count)
    }

    /// Passes the changes after sequence `since` to `show` in their order, until it returns false. The log holds only
    /// the newest change of each document.
    pub fn changes(&self, since: u64, mut show: impl FnMut(Change<'_>) -> Result<bool>) -> Result<()> {
        let range = keys::changes_after(self.collection.id, since);
        for pair in self.snapshot.scan(Space::Log, range, Direction::Forward) {
            let (key, value) = pair?;
            let (sequence, _) = key
                .get(self.prefix.len()..)
                .and_then(read_number)
                .ok_or_else(|| Error::Damaged(keys::describe(Space::Log, &key)))?;
            if !show(Change::parse(sequence, &value)?)? {
                break;
            }
        }
        Ok(())
    }
}

/// A borrowed entry of an index.
#[derive(Clone, Copy)]
pub(crate) struct RawEntry<'a> {
    /// The key. In an index that is not unique, the id follows it.
    pub key: &'a [u8],
    /// The type bytes, which restore the exact values of the key.
    pub types: &'a [u8],
    /// The id, in a unique index.
    id: Option<&'a [u8]>,
    raw: &'a [u8],
}

impl<'a> RawEntry<'a> {
    /// Parses a raw pair of an index.
    pub fn new(index: &Index, raw: &'a [u8], value: &'a [u8]) -> Result<RawEntry<'a>> {
        let (_, key) = read_number(raw).ok_or_else(|| damaged_entry(raw))?;
        let (id, types) = match index.spec.unique {
            true => split_unique_value(value).map(|(id, types)| (Some(id), types))?,
            false => (None, value),
        };
        Ok(RawEntry { key, types, id, raw })
    }

    /// The key without the id, and the id.
    pub fn split(&self, index: &Index) -> Result<(&'a [u8], &'a [u8])> {
        if let Some(id) = self.id {
            return Ok((self.key, id));
        }
        let length = index.spec.key_length(self.key);
        length.and_then(|length| self.key.split_at_checked(length)).ok_or_else(|| damaged_entry(self.raw))
    }
}

/// The error of a pair that is no valid entry of an index.
pub(crate) fn damaged_entry(raw: &[u8]) -> Error {
    Error::Damaged(keys::describe(Space::Indexes, raw))
}
