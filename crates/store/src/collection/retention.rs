//! Retention of history: ancestors of revisions, and tombstones. Only replicators and HTTP clients need them.
//!
//! A collection that no HTTP client and no replicator ever touched keeps no history: no client holds a revision of it that a
//! later change would have to follow. From the first touch on it keeps history (docs/decisions/0019). The touch is
//! recorded durably before the client is shown a document, and it waits for the writes under way. So every change that such
//! a client must learn of later has its tombstone or its ancestor.

use super::{Collection, Schema};
use crate::error::Result;
use diwan_kv::Batch;
use std::sync::atomic::Ordering;

impl Collection {
    /// Whether ancestors and tombstones are kept.
    pub fn keeps_history(&self) -> bool {
        self.schema.read().history
    }

    /// Has ancestors and tombstones kept from now on. To be called before a document or a change of the collection is shown
    /// to an HTTP client or a replicator, or is written by one; the caller holds no lock of the store. All calls after the
    /// first cost nothing.
    pub fn keep_history(&self) -> Result<()> {
        if self.history_durable.load(Ordering::Acquire) {
            return Ok(());
        }
        if !self.keeps_history() {
            let change = self.shared.change_schema();
            self.change_schema(&change, |_, schema| {
                schema.history = true;
                Ok(())
            })?;
        }
        // Another thread may have recorded it just now. An empty batch tells the number of the last commit.
        let engine = &self.shared.engine;
        engine.wait_durable(engine.commit(Batch::new())?)?;
        self.history_durable.store(true, Ordering::Release);
        Ok(())
    }
}

impl Schema {
    /// For how many seconds tombstones are kept; `None` if they are not.
    pub(super) fn tombstone_seconds(&self) -> Option<u64> {
        self.history.then_some(self.options.tombstone_seconds)
    }
}
