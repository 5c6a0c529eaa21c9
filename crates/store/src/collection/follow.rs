//! Reading the state of a collection anew after other processes have written ([`crate::follow`]).

use super::Collection;
use super::recover::Recovered;
use super::stage::is_design;
use crate::error::Result;
use diwan_kv::{Bytes, Snapshot};
use std::sync::atomic::Ordering;

impl Collection {
    /// Reads the sequence and the counts anew.
    pub(crate) fn follow_sequence(&self, snapshot: &dyn Snapshot) -> Result<()> {
        let capped = self.schema().options.capped.is_some();
        self.sequence.follow(snapshot, self.id, capped)
    }

    /// Wakes the subscribers after the sequence has been brought up to date. `ids` are the key bytes of the ids of the documents that
    /// may have changed; `None` stands for all.
    pub(crate) fn follow_documents(&self, ids: Option<&[Bytes]>) {
        match ids {
            Some(ids) => {
                let mut greatest = self.greatest_id.lock();
                if let Some(greatest) = greatest.as_mut()
                    && let Some(newest) = ids.iter().max()
                    && **newest > **greatest
                {
                    *greatest = newest.to_vec();
                }
            }
            None => *self.greatest_id.lock() = None,
        }
        if ids.is_none_or(|ids| ids.iter().any(|id| is_design(id))) {
            self.designs.fetch_add(1, Ordering::SeqCst);
        }
        self.changed();
    }

    /// Reads the settings anew.
    pub(crate) fn follow_settings(&self, snapshot: &dyn Snapshot) -> Result<()> {
        self.settings.replace(Recovered::read_settings(snapshot, self.id)?);
        Ok(())
    }

    /// Says that it is on disk that the collection keeps history.
    pub(crate) fn note_history(&self) {
        self.history_durable.store(true, Ordering::Release);
    }
}
