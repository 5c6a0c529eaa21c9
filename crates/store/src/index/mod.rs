//! Secondary indexes: their specification, a document's keys in them, and index builds beside traffic.

mod build;
mod bulk;
mod keygen;
mod run;
mod spec;

pub use build::BuildProgress;
pub use keygen::IndexKeys;
pub use spec::{FieldOrder, IndexField, IndexKind, IndexSpec, same_pattern};
pub(crate) use spec::{check_storage_engine, compile_collation};

use crate::error::Result;
use crate::keys::IndexId;
use diwan_query::display::ShownDoc;
use diwan_value::{Doc, DocBuf};
use spec::MAX_FIELDS;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The multikey bits that stand for arrays.
pub(crate) const ARRAYS: u64 = (1 << MAX_FIELDS) - 1;

/// An index of a collection: its specification and its state.
#[derive(Debug)]
pub struct Index {
    /// The number that prefixes its entries.
    pub id: IndexId,
    /// The specification.
    pub spec: IndexSpec,
    /// The name of a scan of this index in `planSummary`.
    pub(crate) summary: Arc<str>,
    /// Whether the index holds every document. Writers maintain it from the start of its build; readers use it once it
    /// is ready. The flag is never changed in place, so that a reader's schema does not become newer than its snapshot.
    ready: bool,
    /// State that the versions of the index share when its specification or readiness changes.
    runtime: Arc<IndexRuntime>,
}

/// The state of an index that changes while it is in use.
#[derive(Debug)]
struct IndexRuntime {
    /// The multikey bits of all entries so far, see [`IndexKeys::multikey`]. A wildcard index has all bits once any
    /// document has an array.
    multikey: AtomicU64,
    /// The bits that the catalog holds. An entry that depends on a bit is written only after the catalog holds the bit.
    noted: AtomicU64,
    /// How many queries used the index since the start, for `$indexStats`.
    accesses: AtomicU64,
    /// When counting began, in milliseconds since the Unix epoch.
    counted_since: i64,
}

impl Index {
    /// An index as the catalog stores it.
    pub(crate) fn new(id: IndexId, spec: IndexSpec, ready: bool, multikey: u64) -> Index {
        let runtime = IndexRuntime {
            multikey: AtomicU64::new(multikey),
            noted: AtomicU64::new(multikey),
            accesses: AtomicU64::new(0),
            counted_since: crate::clock::now_millis(),
        };
        Index::with_runtime(id, spec, ready, Arc::new(runtime))
    }

    fn with_runtime(id: IndexId, spec: IndexSpec, ready: bool, runtime: Arc<IndexRuntime>) -> Index {
        let summary = format!("IXSCAN {}", ShownDoc(spec.key.as_doc())).into();
        Index { id, summary, spec, ready, runtime }
    }

    /// Whether queries may use the index.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// The same index with a state of its own, for a transaction.
    pub(crate) fn detached(&self) -> Index {
        Index::new(self.id, self.spec.clone(), self.ready, self.multikey())
    }

    /// The same index, marked as ready. The caller has closed the write gate.
    pub(crate) fn completed(&self) -> Index {
        Index::with_runtime(self.id, self.spec.clone(), true, self.runtime.clone())
    }

    /// The same index with another specification, which must give the same entries.
    pub(crate) fn respecified(&self, spec: IndexSpec) -> Index {
        Index::with_runtime(self.id, spec, self.ready, self.runtime.clone())
    }

    /// Whether any document has several entries.
    pub fn is_multikey(&self) -> bool {
        self.multikey() & ARRAYS != 0
    }

    /// Whether any document has an array in this field of the key.
    pub(crate) fn has_arrays(&self, field: usize) -> bool {
        self.multikey() >> field & 1 == 1
    }

    /// Whether any document has a value in this field that CouchDB orders differently among other values than BSON.
    pub(crate) fn has_unlike(&self, field: usize) -> bool {
        self.multikey() >> (MAX_FIELDS + field) & 1 == 1
    }

    /// The multikey bits of all entries so far, see [`IndexKeys::multikey`].
    pub fn multikey(&self) -> u64 {
        self.runtime.multikey.load(Ordering::Acquire)
    }

    /// Adds multikey bits. The next write of the catalog entry stores them.
    pub(crate) fn add_multikey(&self, bits: u64) {
        self.runtime.multikey.fetch_or(bits, Ordering::AcqRel);
    }

    /// Whether the catalog may lack any of these bits.
    pub(crate) fn has_unrecorded(&self, bits: u64) -> bool {
        bits & !self.runtime.noted.load(Ordering::Acquire) != 0
    }

    /// Records that the catalog holds these bits.
    pub(crate) fn note_multikey(&self, bits: u64) {
        self.runtime.noted.fetch_or(bits, Ordering::AcqRel);
    }

    /// Counts one query that uses the index.
    pub(crate) fn note_access(&self) {
        self.runtime.accesses.fetch_add(1, Ordering::Relaxed);
    }

    /// How many queries used the index, and since when (milliseconds since the Unix epoch).
    pub fn accesses(&self) -> (u64, i64) {
        (self.runtime.accesses.load(Ordering::Relaxed), self.runtime.counted_since)
    }

    /// The entries that `doc` has in the index.
    pub fn keys_of(&self, doc: Doc<'_>) -> Result<IndexKeys> {
        keygen::keys_of(&self.spec, doc)
    }

    /// The document's values of the entry with these key bytes; empty if the document has no such entry.
    pub(crate) fn key_value(&self, doc: Doc<'_>, key: &[u8]) -> Result<DocBuf> {
        keygen::key_value(&self.spec, doc, key)
    }
}
