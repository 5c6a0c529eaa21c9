//! What the indexes of CouchDB views need from a collection: numbers, headers, and batches that a dropped collection
//! refuses.
//!
//! The view builder (crate `script`) decides what lies under a number. The store deletes it with the collection: a
//! number is marked as dropped until its header is stored, and again when the header is removed.

use crate::collection::{Collection, ReadView};
use crate::error::{Error, Result};
use crate::keys::{self, IndexId, Key, read_number};
use crate::replica::Applying;
use crate::store::Shared;
use diwan_kv::{Batch, Bytes, CommitId, Direction, KeyRange, Peers, Space, Visitor};
use std::sync::Arc;

/// A number for temporary keys. They are deleted after this is dropped, or at the next start.
pub struct TemporaryNumber {
    shared: Arc<Shared>,
    number: IndexId,
}

impl TemporaryNumber {
    /// The number.
    pub fn number(&self) -> IndexId {
        self.number
    }

    /// Writes keys under the number.
    pub fn commit(&self, batch: Batch) -> Result<CommitId> {
        Ok(self.shared.engine.commit(batch)?)
    }

    /// Whether a key is stored under the number.
    pub fn contains(&self, space: Space, key: &[u8]) -> Result<bool> {
        Ok(self.shared.engine.get(space, key)?.is_some())
    }

    /// Deletes a range of the keys before it returns.
    pub fn delete(&self, range: KeyRange) -> Result<u64> {
        Ok(self.shared.engine.delete_range(Space::Indexes, range)?)
    }
}

impl Drop for TemporaryNumber {
    fn drop(&mut self) {
        self.shared.delete_later(vec![self.number.0]);
    }
}

impl Collection {
    /// The numbers and headers of the collection's view indexes.
    pub fn view_headers(&self) -> Result<Vec<(IndexId, Bytes)>> {
        let prefix = keys::views_prefix(self.id);
        let snapshot = self.shared.engine.snapshot();
        let pairs = snapshot.scan(Space::Meta, KeyRange::prefix(&prefix), Direction::Forward);
        pairs
            .map(|pair| {
                let (key, value) = pair?;
                let number = key.get(prefix.len()..).and_then(read_number);
                let number = number.and_then(|(number, _)| u32::try_from(number).ok());
                let number = number.ok_or_else(|| Error::Damaged(keys::describe(Space::Meta, &key)))?;
                Ok((IndexId(number), value))
            })
            .collect()
    }

    /// The numbers of the collection's view indexes.
    pub(crate) fn view_numbers(&self) -> Result<Vec<u32>> {
        Ok(self.view_headers()?.into_iter().map(|(number, _)| number.0).collect())
    }

    /// The key, in `Meta`, of a view index's header.
    pub fn view_header_key(&self, index: IndexId) -> Vec<u8> {
        Key::ViewHeader(self.id, index).bytes()
    }

    /// The other processes that may have the store open.
    pub fn peers(&self) -> Option<&dyn Peers> {
        self.shared.engine.peers()
    }

    /// Creates a view index with this header.
    pub fn create_view_index(&self, header: &[u8]) -> Result<IndexId> {
        let number = self.shared.next_number()?;
        let mut batch = Batch::new();
        batch.put(Space::Meta, self.view_header_key(IndexId(number)), header);
        batch.delete(Space::Meta, Key::Dropped(number).bytes());
        if let Err(error) = self.commit_view(batch) {
            self.shared.delete_later(vec![number]);
            return Err(error);
        }
        Ok(IndexId(number))
    }

    /// Commits writes of a view index, unless the collection has been dropped.
    pub fn commit_view(&self, batch: Batch) -> Result<CommitId> {
        // A follower has view indexes of its own.
        let _applying = Applying::begin();
        self.commit_unless_dropped(batch)
    }

    /// Removes a view index. Its header is gone at once; its keys are deleted in the background.
    pub fn drop_view_index(&self, index: IndexId) -> Result<()> {
        let mut batch = Batch::new();
        batch.take_reserve();
        batch.delete(Space::Meta, self.view_header_key(index));
        batch.put(Space::Meta, Key::Dropped(index.0).bytes(), Vec::new());
        self.commit_view(batch)?;
        self.shared.delete_later(vec![index.0]);
        Ok(())
    }

    /// Allocates a number for temporary keys.
    pub fn temporary_number(&self) -> Result<TemporaryNumber> {
        Ok(TemporaryNumber { shared: self.shared.clone(), number: IndexId(self.shared.next_number()?) })
    }

    /// Deletes a range of a view index's keys, in batches, before it returns.
    pub fn delete_view_keys(&self, range: KeyRange) -> Result<u64> {
        Ok(self.shared.engine.delete_range(Space::Indexes, range)?)
    }
}

impl ReadView {
    /// Passes the stored records of documents whose ids' key bytes are greater than `after` to `show`, until it breaks.
    pub fn raw_documents(&self, after: Option<&[u8]>, show: &mut Visitor<'_>) -> Result<()> {
        let prefix = keys::collection_prefix(self.collection().id);
        let range = keys::range_after(&prefix, after);
        self.snapshot().visit(Space::Records, range, &mut |key, value| {
            show(key.get(prefix.len()..).unwrap_or_default(), value)
        })?;
        Ok(())
    }

    /// A document's stored record.
    pub fn raw_document(&self, id: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.snapshot().get(Space::Records, &Key::Record(self.collection().id, id).bytes())?)
    }

    /// The header of a view index.
    pub fn view_header(&self, index: IndexId) -> Result<Option<Bytes>> {
        Ok(self.snapshot().get(Space::Meta, &self.collection().view_header_key(index))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Namespace, Store};
    use diwan_kv::MemoryEngine;
    use std::time::{Duration, Instant};

    fn keys_left(store: &Store) -> usize {
        let snapshot = store.engine().snapshot();
        let count =
            |space, prefix: &[u8]| snapshot.scan(space, KeyRange::prefix(prefix), Direction::Forward).count();
        count(Space::Indexes, b"") + count(Space::Meta, b"v") + count(Space::Meta, b"x")
    }

    #[test]
    fn dropping_a_collection_deletes_its_view_indexes() {
        let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
        let name = Namespace { database: "test".to_owned(), collection: "c".to_owned() };
        let collection = store.collection_or_create(&name).unwrap();
        let put = |index| {
            let mut batch = Batch::new();
            batch.put(Space::Indexes, Key::ViewNode(index, 0, 0).bytes(), b"node".as_slice());
            batch.put(Space::Indexes, Key::ViewDocument(index, b"id").bytes(), b"rows".as_slice());
            batch
        };
        let index = collection.create_view_index(b"header").unwrap();
        collection.commit_view(put(index)).unwrap();
        assert_eq!(&*collection.view_headers().unwrap()[0].1, b"header");
        let temporary = collection.temporary_number().unwrap();
        temporary.commit(put(temporary.number())).unwrap();
        drop(temporary);
        let other = collection.create_view_index(b"other").unwrap();
        collection.commit_view(put(other)).unwrap();
        collection.drop_view_index(other).unwrap();
        assert_eq!(collection.view_headers().unwrap().len(), 1);
        store.drop_collection(&name).unwrap();
        assert!(collection.commit_view(put(index)).is_err());
        assert!(collection.create_view_index(b"late").is_err());
        let end = Instant::now() + Duration::from_secs(20);
        while keys_left(&store) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(keys_left(&store), 0);
    }
}
