//! The counters and positions of a replication, updated by its threads and read by monitoring requests.

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters and positions.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    counts: [AtomicU64; 8],
    positions: Mutex<Positions>,
}

/// The positions of a replication.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    /// The last sequence read from the source.
    pub(crate) source: Value,
    /// All changes up to this sequence are copied.
    pub(crate) through: Value,
    /// The sequence of the last checkpoint.
    pub(crate) checkpointed: Value,
    /// How many changes are left to read, if the source reports it.
    pub(crate) pending: Option<u64>,
}

/// The counters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    /// Revisions checked with `_revs_diff`.
    Checked,
    /// Revisions that the target lacked.
    Missing,
    /// Revisions read from the source.
    Read,
    /// Revisions that the target stored.
    Written,
    /// Revisions that the target refused.
    Failures,
    /// Revisions requested with `_bulk_get`.
    BulkAttempts,
    /// Revisions received from `_bulk_get`.
    BulkDocs,
    /// Bytes of documents and attachments sent to the target.
    Bytes,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts([u64; 8]);

/// The names of the counters in checkpoints.
const HISTORY: [&str; 8] = [
    "missing_checked",
    "missing_found",
    "docs_read",
    "docs_written",
    "doc_write_failures",
    "bulk_get_attempts",
    "bulk_get_docs",
    "bytes_written",
];
/// The names of the counters in monitoring requests.
const TASK: [&str; 8] = [
    "revisions_checked",
    "missing_revisions_found",
    "docs_read",
    "docs_written",
    "doc_write_failures",
    "bulk_get_attempts",
    "bulk_get_docs",
    "bytes_written",
];

impl Progress {
    /// Increases a counter.
    pub(crate) fn add(&self, what: Count, number: u64) {
        self.counts[what as usize].fetch_add(number, Ordering::Relaxed);
    }

    /// Returns all counters.
    pub(crate) fn counts(&self) -> Counts {
        Counts(std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed)))
    }

    /// Raises the counters to those of a checkpoint: a replication counts over all its sessions.
    pub(crate) fn carry(&self, noted: Counts) {
        for (count, noted) in self.counts.iter().zip(noted.0) {
            count.fetch_max(noted, Ordering::Relaxed);
        }
    }

    /// Updates the positions.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Positions)) {
        change(&mut self.positions.lock());
    }

    /// Formats everything for `_scheduler` and `_active_tasks`.
    pub(crate) fn describe(&self) -> Map<String, Value> {
        let mut out = self.counts().named(&TASK);
        let positions = self.positions.lock().clone();
        out.insert("source_seq".into(), positions.source);
        out.insert("through_seq".into(), positions.through);
        out.insert("checkpointed_source_seq".into(), positions.checkpointed);
        out.insert("changes_pending".into(), json!(positions.pending));
        out
    }
}

impl Counts {
    /// Reads the counters of a session in a checkpoint.
    pub(crate) fn from_history(entry: &Map<String, Value>) -> Counts {
        Counts(HISTORY.map(|name| entry.get(name).and_then(Value::as_u64).unwrap_or(0)))
    }

    /// Formats the counters for a session in a checkpoint.
    pub(crate) fn history(&self) -> Map<String, Value> {
        self.named(&HISTORY)
    }

    fn named(&self, names: &[&str; 8]) -> Map<String, Value> {
        names.iter().zip(self.0).map(|(name, count)| ((*name).to_owned(), json!(count))).collect()
    }
}
