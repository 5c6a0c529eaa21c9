//! What a run has done so far: counted by its threads, read by whoever asks.

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts and positions of a run.
#[derive(Debug, Default)]
pub struct Progress {
    counts: [AtomicU64; 7],
    positions: Mutex<Positions>,
}

/// Where a run is.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    /// The newest sequence that was read from the source.
    pub source: Value,
    /// All up to this one is done.
    pub through: Value,
    /// All up to this one is noted to be.
    pub checkpointed: Value,
    /// How many changes there are that were not read yet, if the source tells.
    pub pending: Option<u64>,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// Revisions that the target was asked about.
    Checked,
    /// Those that it lacked.
    Missing,
    /// Revisions read from the source.
    Read,
    /// Revisions that the target took.
    Written,
    /// Revisions that the target refused.
    Failures,
    /// Revisions asked for many at once.
    BulkAttempts,
    /// Those of them that came.
    BulkDocs,
}

/// The counts at one moment, by the names of histories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; 7]);

const HISTORY: [&str; 7] = [
    "missing_checked",
    "missing_found",
    "docs_read",
    "docs_written",
    "doc_write_failures",
    "bulk_get_attempts",
    "bulk_get_docs",
];
const TASK: [&str; 7] = [
    "revisions_checked",
    "missing_revisions_found",
    "docs_read",
    "docs_written",
    "doc_write_failures",
    "bulk_get_attempts",
    "bulk_get_docs",
];

impl Progress {
    /// Counts.
    pub fn add(&self, what: Count, number: u64) {
        self.counts[what as usize].fetch_add(number, Ordering::Relaxed);
    }

    /// All counts.
    pub fn counts(&self) -> Counts {
        Counts(std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed)))
    }

    /// Goes on from counts that were noted, where they are greater: a replication counts over all its sessions.
    pub fn carry(&self, noted: Counts) {
        for (count, noted) in self.counts.iter().zip(noted.0) {
            count.fetch_max(noted, Ordering::Relaxed);
        }
    }

    /// Changes the positions.
    pub fn update(&self, change: impl FnOnce(&mut Positions)) {
        change(&mut self.positions.lock());
    }

    /// As `_scheduler` and `_active_tasks` tell it.
    pub fn describe(&self) -> Map<String, Value> {
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
    /// What a session in the history of checkpoints tells.
    pub fn from_history(entry: &Map<String, Value>) -> Counts {
        Counts(HISTORY.map(|name| entry.get(name).and_then(Value::as_u64).unwrap_or(0)))
    }

    /// As the history of checkpoints tells it.
    pub fn history(&self) -> Map<String, Value> {
        self.named(&HISTORY)
    }

    fn named(&self, names: &[&str; 7]) -> Map<String, Value> {
        names.iter().zip(self.0).map(|(name, count)| ((*name).to_owned(), json!(count))).collect()
    }
}
