//! Secondary indexes: their specification, the keys a document has in them, and building one beside traffic.

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

/// Which of an index's bits tell of arrays.
pub(crate) const ARRAYS: u64 = (1 << MAX_FIELDS) - 1;

/// An index of a collection: what was asked for, and what is known of it.
#[derive(Debug)]
pub struct Index {
    /// The number its entries lie under.
    pub id: IndexId,
    /// What was asked for.
    pub spec: IndexSpec,
    /// What `planSummary` calls a scan of it.
    pub summary: Arc<str>,
    /// Whether it holds every document: writers keep it up to date from its beginning, readers use it from here on.
    /// Not changed in place: a reader's schema must be older than its snapshot in this as well.
    ready: bool,
    /// What stays the same index's when its specification or readiness changes.
    state: Arc<State>,
}

/// What is learnt of an index while it is in use.
#[derive(Debug)]
struct State {
    /// What is known of the values in the fields of the key, as [`IndexKeys::multikey`] has it; a wildcard index has all bits
    /// once any document has an array.
    multikey: AtomicU64,
    /// Which of these bits are in the catalog: only then may an entry depend on them.
    noted: AtomicU64,
    /// How often it answered a query since the start, for `$indexStats`.
    accesses: AtomicU64,
    /// When counting began, in milliseconds since the Unix epoch.
    counted_since: i64,
}

impl Index {
    /// An index as the catalog knows it.
    pub(crate) fn new(id: IndexId, spec: IndexSpec, ready: bool, multikey: u64) -> Index {
        let state = State {
            multikey: AtomicU64::new(multikey),
            noted: AtomicU64::new(multikey),
            accesses: AtomicU64::new(0),
            counted_since: crate::clock::now_millis(),
        };
        Index::with_state(id, spec, ready, Arc::new(state))
    }

    fn with_state(id: IndexId, spec: IndexSpec, ready: bool, state: Arc<State>) -> Index {
        let summary = format!("IXSCAN {}", ShownDoc(spec.key.as_doc())).into();
        Index { id, summary, spec, ready, state }
    }

    /// Whether queries may use it.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// The same index, complete. No write may be under way.
    pub(crate) fn completed(&self) -> Index {
        Index::with_state(self.id, self.spec.clone(), true, self.state.clone())
    }

    /// The same index under another specification of the same entries.
    pub(crate) fn respecified(&self, spec: IndexSpec) -> Index {
        Index::with_state(self.id, spec, self.ready, self.state.clone())
    }

    /// Whether any document has several entries.
    pub fn is_multikey(&self) -> bool {
        self.multikey() & ARRAYS != 0
    }

    /// Whether a field of the key has met an array.
    pub fn has_arrays(&self, field: usize) -> bool {
        self.multikey() >> field & 1 == 1
    }

    /// Whether a field of the key has met values that CouchDB's order puts elsewhere among others.
    pub fn has_unlike(&self, field: usize) -> bool {
        self.multikey() >> (MAX_FIELDS + field) & 1 == 1
    }

    /// What is known of the values in the fields of the key, as [`IndexKeys::multikey`] has it.
    pub fn multikey(&self) -> u64 {
        self.state.multikey.load(Ordering::Acquire)
    }

    /// Adds multikey bits to what the catalog is told at its next writing.
    pub(crate) fn add_multikey(&self, bits: u64) {
        self.state.multikey.fetch_or(bits, Ordering::AcqRel);
    }

    /// Whether the catalog may not know of these bits yet.
    pub(crate) fn is_news(&self, bits: u64) -> bool {
        bits & !self.state.noted.load(Ordering::Acquire) != 0
    }

    /// Remembers that the catalog holds these bits.
    pub(crate) fn note_multikey(&self, bits: u64) {
        self.state.noted.fetch_or(bits, Ordering::AcqRel);
    }

    /// Counts one query that the index answered.
    pub fn note_access(&self) {
        self.state.accesses.fetch_add(1, Ordering::Relaxed);
    }

    /// How many queries the index answered, and since when (milliseconds since the Unix epoch).
    pub fn accesses(&self) -> (u64, i64) {
        (self.state.accesses.load(Ordering::Relaxed), self.state.counted_since)
    }

    /// The entries that `doc` has in the index.
    pub fn keys_of(&self, doc: Doc<'_>) -> Result<IndexKeys> {
        keygen::keys_of(&self.spec, doc)
    }

    /// The values behind one of these entries' key bytes; none behind others.
    pub fn key_value(&self, doc: Doc<'_>, key: &[u8]) -> Result<DocBuf> {
        keygen::key_value(&self.spec, doc, key)
    }
}
