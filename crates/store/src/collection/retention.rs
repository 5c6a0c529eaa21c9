//! Retention of history: ancestors of revisions, and tombstones. Only replicators and HTTP clients need them.
//!
//! A collection that no HTTP client and no replicator has touched keeps no history, because no client knows a revision of it
//! that a later change must refer to. From the first touch on it keeps history (docs/decisions/0019). The touch waits for
//! running writes, and it is durable before the client gets a document. So every later change that such a client must
//! learn of has a tombstone or an ancestor.

use super::{Collection, Schema};
use crate::error::Result;
use crate::replica::Applying;
use diwan_kv::Batch;
use std::sync::atomic::Ordering;

impl Collection {
    /// Whether ancestors and tombstones are kept.
    pub fn keeps_history(&self) -> bool {
        self.schema.read().history
    }

    /// Keeps ancestors and tombstones from now on. Call it before an HTTP client or a replicator reads or writes a document
    /// or a change of the collection. The caller must not hold a lock of the store. Calls after the first one only read a
    /// flag.
    pub fn keep_history(&self) -> Result<()> {
        if self.history_durable.load(Ordering::Acquire) {
            return Ok(());
        }
        if !self.keeps_history() {
            // On a follower, too: its readers replicate from it.
            let _applying = Applying::begin();
            self.shared.evaluate(|| {
                let change = self.shared.change_schema();
                self.change_schema(&change, |_, schema| {
                    schema.history = true;
                    Ok(())
                })
            })?;
        }
        // Another thread may have recorded the touch just now. Committing an empty batch returns the last commit's number.
        let engine = &self.shared.engine;
        engine.wait_durable(engine.commit(Batch::new())?)?;
        self.history_durable.store(true, Ordering::Release);
        Ok(())
    }
}

impl Schema {
    /// How many seconds tombstones are kept; `None` if they are not kept.
    pub(super) fn tombstone_seconds(&self) -> Option<u64> {
        self.history.then_some(self.options.tombstone_seconds)
    }
}
