//! The ids of the documents that a scan has found, for scans that may find a document several times: by several of its keys
//! in a multikey index, or by several branches of an `$or`.
//!
//! The ids are in memory while the [pool](diwan_query::MemoryPool) has room. Then they spill to the store, under a temporary
//! number, and are deleted when the scan ends.

use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::keys::Key;
use crate::views::TemporaryNumber;
use diwan_kv::{Batch, Space};
use diwan_query::{MemoryPool, Reservation, code};
use std::collections::HashSet;

/// The memory that an id takes beside its bytes: its slot in the set, a share of the empty slots, and its allocation.
const ID_BYTES: usize = 64;
/// How many ids are written to the store in one batch.
const BATCH: usize = 4096;

/// A set of ids, as key bytes.
pub(super) struct Seen {
    ids: HashSet<Vec<u8>>,
    bytes: usize,
    reservation: Reservation,
    may_spill: bool,
    spilled: Option<TemporaryNumber>,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen::within(&MemoryPool::shared())
    }
}

impl Seen {
    fn within(pool: &MemoryPool) -> Seen {
        let reservation = pool.reservation(true);
        Seen { ids: HashSet::new(), bytes: 0, reservation, may_spill: true, spilled: None }
    }

    /// Makes `insert` fail, instead of spilling to the store, when memory is used up (`allowDiskUse: false`).
    pub fn forbid_spilling(&mut self) {
        self.may_spill = false;
    }

    /// Adds the id of one of the collection's documents. Returns false if the set already has it.
    pub fn insert(&mut self, collection: &Collection, id: Vec<u8>) -> Result<bool> {
        if self.ids.contains(&id) || self.is_spilled(&id)? {
            return Ok(false);
        }
        let bytes = id.len() + ID_BYTES;
        if !self.reservation.cover(self.bytes + bytes) {
            self.spill(collection)?;
        }
        self.bytes += bytes;
        Ok(self.ids.insert(id))
    }

    fn is_spilled(&self, id: &[u8]) -> Result<bool> {
        match &self.spilled {
            None => Ok(false),
            Some(number) => number.contains(Space::Indexes, &Key::Seen(number.number(), id).bytes()),
        }
    }

    /// Moves the ids from memory to the store.
    fn spill(&mut self, collection: &Collection) -> Result<()> {
        if !self.may_spill {
            let text = "Exceeded memory limit for the ids of documents that a scan has found, but didn't allow disk use. \
                        Pass allowDiskUse:true to opt in.";
            return Err(Error::refused(code::QUERY_EXCEEDED_MEMORY_LIMIT, text));
        }
        let number = match &self.spilled {
            Some(number) => number,
            None => self.spilled.insert(collection.temporary_number()?),
        };
        let mut ids: Vec<Vec<u8>> = std::mem::take(&mut self.ids).into_iter().collect();
        ids.sort_unstable();
        for ids in ids.chunks(BATCH) {
            let mut batch = Batch::with_capacity(ids.len());
            for id in ids {
                batch.put(Space::Indexes, Key::Seen(number.number(), id).bytes(), Vec::new());
            }
            number.commit(batch)?;
        }
        self.bytes = 0;
        self.reservation.release();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Namespace, Store};
    use diwan_kv::{Direction, KeyRange, MemoryEngine};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    fn collection(store: &Arc<Store>) -> Arc<Collection> {
        store.collection_or_create(&Namespace::new("a", "b").unwrap()).unwrap()
    }

    #[test]
    fn ids_beyond_memory_are_found_in_the_store_and_deleted_after_the_scan() {
        let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
        let collection = collection(&store);
        let keys_left = || {
            let snapshot = store.engine().snapshot();
            snapshot.scan(Space::Indexes, KeyRange::all(), Direction::Forward).count()
        };
        let mut seen = Seen::within(&MemoryPool::new(0));
        for n in 0..10_000u32 {
            assert!(seen.insert(&collection, n.to_be_bytes().to_vec()).unwrap());
        }
        assert!(keys_left() > 5000);
        for n in 0..10_000u32 {
            assert!(!seen.insert(&collection, n.to_be_bytes().to_vec()).unwrap());
        }
        drop(seen);
        let end = Instant::now() + Duration::from_secs(60);
        while keys_left() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(keys_left(), 0);
    }

    #[test]
    fn without_disk_use_too_many_ids_are_refused() {
        let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
        let collection = collection(&store);
        let mut seen = Seen::within(&MemoryPool::new(0));
        seen.forbid_spilling();
        let refused = (0..10_000u32).find_map(|n| seen.insert(&collection, n.to_be_bytes().to_vec()).err());
        let Some(Error::Query(refused)) = refused else { panic!("not refused") };
        assert_eq!(refused.code, code::QUERY_EXCEEDED_MEMORY_LIMIT);
    }
}
