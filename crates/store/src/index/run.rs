//! A run of index entries in memory, which is sorted and then ingested.

use super::Index;
use crate::keys;
use diwan_query::{MemoryPool, Reservation};
use std::sync::Arc;

/// How many bytes of entries are gathered, approximately, before they are sorted and ingested: fewer if memory is scarce.
const RUN_BYTES: usize = 32 << 20;
const LEAST_RUN_BYTES: usize = 4 << 20;

/// A run of entries of several indexes.
pub(super) struct EntryRun {
    /// In the order of the indexes' numbers, which is also the order of their keys.
    indexes: Vec<IndexEntries>,
    bytes: usize,
    most: usize,
    _reservation: Reservation,
}

/// The entries of one index.
struct IndexEntries {
    prefix: Vec<u8>,
    /// The entries: each whole key is followed by its value.
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// The place of an entry in the bytes.
#[derive(Clone, Copy)]
struct Place {
    /// The first bytes of the key after the prefix, padded with zeros. They decide most comparisons.
    head: u128,
    at: usize,
    key: u32,
    value: u32,
}

impl EntryRun {
    /// An empty run for entries of these indexes, in ascending order of their numbers.
    pub fn new(indexes: &[Arc<Index>]) -> EntryRun {
        let of_index = |index: &Arc<Index>| IndexEntries {
            prefix: keys::index_prefix(index.id),
            bytes: Vec::new(),
            places: Vec::new(),
        };
        let mut reservation = MemoryPool::shared().reservation(true);
        let most = reservation.cover_part(RUN_BYTES, LEAST_RUN_BYTES);
        EntryRun {
            indexes: indexes.iter().map(of_index).collect(),
            bytes: 0,
            most,
            _reservation: reservation,
        }
    }

    /// Adds an entry. `index` is the position of its index in the list that the run was created with.
    pub fn push(&mut self, index: usize, key: &[u8], id: &[u8], types: &[u8]) {
        let IndexEntries { prefix, bytes, places } = &mut self.indexes[index];
        let at = bytes.len();
        for part in [prefix, key, id, types] {
            bytes.extend_from_slice(part);
        }
        let (start, end) = (at + prefix.len(), bytes.len() - types.len());
        let mut head = [0; 16];
        let known = (end - start).min(head.len());
        head[..known].copy_from_slice(&bytes[start..start + known]);
        let place =
            Place { head: u128::from_be_bytes(head), at, key: (end - at) as u32, value: types.len() as u32 };
        places.push(place);
        self.bytes += bytes.len() - at + size_of::<Place>();
    }

    pub fn is_full(&self) -> bool {
        self.bytes >= self.most
    }

    /// The entries in the order of their keys.
    pub fn sorted(&mut self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.indexes.iter_mut().flat_map(|IndexEntries { bytes, places, .. }| {
            let bytes = bytes.as_slice();
            let key = |place: &Place| &bytes[place.at..][..place.key as usize];
            places.sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| key(a).cmp(key(b))));
            places.iter().map(move |place| {
                let (key, rest) = bytes[place.at..].split_at(place.key as usize);
                (key, &rest[..place.value as usize])
            })
        })
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.bytes = 0;
        for entries in &mut self.indexes {
            entries.bytes.clear();
            entries.places.clear();
        }
    }
}
