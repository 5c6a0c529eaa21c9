//! Capped collections: the oldest documents go when there are too many.

use super::{Collection, Edit, WriteOptions};
use crate::error::Result;
use crate::keys;
use diwan_kv::{Direction, KeyRange, Space};
use std::sync::Arc;

/// How many documents are removed at a time.
const BATCH: usize = 256;

impl Collection {
    /// Deletes the oldest documents of a capped collection until it is within its bounds.
    pub(super) fn trim_capped(&self) -> Result<()> {
        let schema: Arc<super::Schema> = self.schema();
        let Some(capped) = schema.options.capped else { return Ok(()) };
        loop {
            let (count, bytes) = (self.count(), self.data_bytes());
            let over_count = capped.max_documents.map_or(0, |max| count.saturating_sub(max)) as usize;
            let over_bytes = bytes.saturating_sub(capped.max_bytes);
            // The newest document stays, however large.
            let mut excess = over_count;
            if over_bytes > 0 && count > 1 {
                let average = (bytes / count).max(1);
                excess = excess.max((over_bytes.div_ceil(average) as usize).min(count as usize - 1));
            }
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
            self.edit(&ids, WriteOptions::default(), |_, _| Ok(Edit::Delete))?;
        }
    }
}
