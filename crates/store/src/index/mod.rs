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
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Which fields of the key have met an array, a bit a field; a wildcard index has all bits once any has.
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
        Index {
            id,
            summary: format!("IXSCAN {}", ShownDoc(spec.key.as_doc())).into(),
            spec,
            ready,
            multikey: AtomicU64::new(multikey),
            noted: AtomicU64::new(multikey),
            accesses: AtomicU64::new(0),
            counted_since: crate::clock::now_millis(),
        }
    }

    /// Whether queries may use it.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// The same index, complete. No write may be under way.
    pub(crate) fn completed(&self) -> Index {
        Index::new(self.id, self.spec.clone(), true, self.multikey())
    }

    /// Whether any document has several entries.
    pub fn is_multikey(&self) -> bool {
        self.multikey() != 0
    }

    /// Which fields of the key have met an array, a bit a field.
    pub fn multikey(&self) -> u64 {
        self.multikey.load(Ordering::Acquire)
    }

    /// Adds multikey bits to what the catalog is told at its next writing.
    pub(crate) fn add_multikey(&self, bits: u64) {
        self.multikey.fetch_or(bits, Ordering::AcqRel);
    }

    /// Whether the catalog may not know of these bits yet.
    pub(crate) fn is_news(&self, bits: u64) -> bool {
        bits & !self.noted.load(Ordering::Acquire) != 0
    }

    /// Remembers that the catalog holds these bits.
    pub(crate) fn note_multikey(&self, bits: u64) {
        self.noted.fetch_or(bits, Ordering::AcqRel);
    }

    /// Counts one query that the index answered.
    pub fn note_access(&self) {
        self.accesses.fetch_add(1, Ordering::Relaxed);
    }

    /// How many queries the index answered, and since when (milliseconds since the Unix epoch).
    pub fn accesses(&self) -> (u64, i64) {
        (self.accesses.load(Ordering::Relaxed), self.counted_since)
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
