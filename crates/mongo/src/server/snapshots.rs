//! Snapshots that clients read by their time, with read concern `snapshot`.
//!
//! A command without `atClusterTime` gets a new snapshot and is told its time. Later commands that name this time read the
//! same snapshot, as long as it is kept.

use crate::error::{CommandError, Result, code};
use diwan_store::{Store, Transaction};
use diwan_value::Timestamp;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a snapshot is kept after its last use.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// The greatest age of a snapshot: the versions of documents that it shows take room until it goes.
const MAX_AGE: Duration = Duration::from_secs(300);
struct Kept {
    snapshot: Arc<Transaction>,
    taken: Instant,
    used: Instant,
}

/// The snapshots by their times.
pub(crate) struct Snapshots {
    kept: Mutex<BTreeMap<u64, Kept>>,
    /// How many are kept. The one that was used least recently goes first.
    most: usize,
}

impl Snapshots {
    /// Keeps at most `most`.
    pub(crate) fn new(most: usize) -> Snapshots {
        Snapshots { kept: Mutex::default(), most }
    }

    /// The snapshot of that time, or one of now.
    pub(crate) fn at(&self, store: &Arc<Store>, time: Option<Timestamp>) -> Result<Arc<Transaction>> {
        let now = Instant::now();
        let mut kept = self.kept.lock();
        if let Some(time) = time {
            if let Some(found) = kept.get_mut(&time.to_bits()) {
                found.used = now;
                return Ok(found.snapshot.clone());
            }
            if time > store.clock().now() {
                let text = format!(
                    "readConcern atClusterTime value must not be greater than the current clusterTime. Requested clusterTime: {{ ts: Timestamp({}, {}) }}",
                    time.seconds, time.increment
                );
                return Err(CommandError::new(code::INVALID_OPTIONS, text));
            }
        }
        // Before another is taken, because each may hold a connection.
        if kept.len() >= self.most
            && time.is_none_or(|time| time == store.clock().now())
            && let Some(oldest) = kept.iter().min_by_key(|(_, kept)| kept.used).map(|(time, _)| *time)
        {
            kept.remove(&oldest);
        }
        let snapshot = Arc::new(store.begin_transaction());
        let taken = snapshot.started();
        if time.is_some_and(|time| time != taken) {
            let text = "Read timestamp is older than the oldest available timestamp.";
            return Err(CommandError::new(code::SNAPSHOT_TOO_OLD, text));
        }
        let entry = kept.entry(taken.to_bits()).or_insert(Kept { snapshot, taken: now, used: now });
        entry.used = now;
        Ok(entry.snapshot.clone())
    }

    /// Drops those that were not used for long, and those that are too old.
    pub(crate) fn expire(&self) {
        let is_due = |kept: &Kept| kept.used.elapsed() >= WINDOW || kept.taken.elapsed() >= MAX_AGE;
        let gone: Vec<Kept> = {
            let mut kept = self.kept.lock();
            kept.extract_if(.., |_, kept| is_due(kept)).map(|(_, kept)| kept).collect()
        };
        drop(gone);
    }
}
