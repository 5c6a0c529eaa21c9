//! Backpressure: commits wait while too much memory is not flushed yet.
//!
//! fjall sets a space's memory aside for a flush from a thread that may be busy, and lets writers go on until four such
//! pieces wait. With fast writers and large values that is more memory than the rest of the engine together.

use super::Core;
use super::read::guarded;
use crate::{Batch, Result, Space};
use fjall::{AbstractTree, PersistMode};
use parking_lot::MutexGuard;
use std::time::Duration;

/// A commit waits while the memory of all spaces, with its own pairs, would be more than this.
const MAX_UNFLUSHED: u64 = 64 << 20;
/// Batches of at least so many bytes are committed one at a time, so that only one of them is on its way into memory.
const LARGE: usize = 1 << 20;
/// How long a commit sleeps before it looks again.
const PAUSE: Duration = Duration::from_millis(1);

impl Core {
    /// Waits until there is memory for the batch, and returns its turn if it is large. Call it without locks.
    pub(super) fn wait_for_memory(&self, batch: &Batch) -> Result<Option<MutexGuard<'_, ()>>> {
        let bytes = batch.bytes();
        let turn = (bytes >= LARGE).then(|| self.large_commit.lock());
        let limit = MAX_UNFLUSHED.saturating_sub(bytes as u64);
        while self.db.write_buffer_size() > limit {
            // A flush that failed never frees its memory; fjall reports it here.
            guarded(|| self.db.persist(PersistMode::Buffer)).map_err(|e| self.poisoned_by(e))?;
            if !self.is_flushing() && !self.flush_largest()? {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        Ok(turn)
    }

    fn is_flushing(&self) -> bool {
        let mut keyspaces = Space::ALL.into_iter().filter_map(|space| self.keyspaces.get(space));
        keyspaces.any(|keyspace| keyspace.tree.sealed_memtable_count() > 0)
    }

    /// Begins to flush the space with the most memory. False if no space has any.
    fn flush_largest(&self) -> Result<bool> {
        let keyspaces = Space::ALL.into_iter().filter_map(|space| self.keyspaces.get(space));
        let largest = keyspaces.max_by_key(|keyspace| keyspace.tree.active_memtable().size());
        let Some(keyspace) = largest.filter(|keyspace| keyspace.tree.active_memtable().size() > 0) else {
            return Ok(false);
        };
        guarded(|| keyspace.rotate_memtable()).map_err(|e| self.poisoned_by(e))?;
        Ok(true)
    }
}
