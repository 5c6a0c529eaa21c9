//! Capped collections: a write that exceeds the limits deletes the oldest documents.

use super::{Collection, Edit, WriteOptions};
use crate::error::{Error, Result};
use crate::keys;
use crate::options::Capped;
use crate::replica::is_copied;
use diwan_kv::{Direction, KeyRange, Space};

/// How many documents one batch deletes at most.
const BATCH: usize = 256;

impl Collection {
    /// Deletes the oldest documents of a capped collection until it is within its limits.
    pub(super) fn trim_capped(&self) -> Result<()> {
        let Some(capped) = self.schema().options.capped else { return Ok(()) };
        // A follower deletes what the primary deletes, except in what it has for itself.
        let is_copy = || self.shared.replica.follows() && is_copied(&self.namespace());
        if self.excess(capped) == 0 || is_copy() {
            return Ok(());
        }
        // Two writers that trimmed at the same time would each delete the whole excess.
        let _trimming = self.trimming.lock();
        loop {
            let excess = self.excess(capped);
            if excess == 0 {
                return Ok(());
            }
            let range = KeyRange::prefix(&keys::natural_prefix(self.id));
            let snapshot = self.shared.engine.snapshot();
            let ids = snapshot
                .scan(Space::Indexes, range, Direction::Forward)
                .take(excess.min(BATCH))
                .map(|pair| Ok(pair?.1.to_vec()))
                .collect::<Result<Vec<_>>>()?;
            if ids.is_empty() {
                return Ok(());
            }
            match self.edit(&ids, WriteOptions::default(), |_, _| Ok(Edit::Delete)) {
                Ok(_) => {}
                // The collection was dropped with its documents.
                Err(Error::CollectionDropped(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// How many of the oldest documents exceed the limits now.
    fn excess(&self, capped: Capped) -> usize {
        let (count, bytes) = (self.count(), self.data_bytes());
        let over_count = capped.max_documents.map_or(0, |max| count.saturating_sub(max)) as usize;
        let over_bytes = bytes.saturating_sub(capped.max_bytes);
        // The newest document stays, however large.
        if over_bytes == 0 || count <= 1 {
            return over_count;
        }
        let average = (bytes / count).max(1);
        over_count.max((over_bytes.div_ceil(average) as usize).min(count as usize - 1))
    }
}
