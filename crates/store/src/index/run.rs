//! Entries in memory, sorted to be ingested.

use super::Index;
use crate::keys;
use std::sync::Arc;

/// About how many bytes of entries are gathered before they are sorted and ingested.
const RUN_BYTES: usize = 32 << 20;

/// A run of entries of some indexes.
pub(super) struct Run {
    /// In the order of the indexes' numbers, which is that of their keys.
    parts: Vec<Part>,
    bytes: usize,
}

/// The entries of one index.
struct Part {
    prefix: Vec<u8>,
    /// Whole keys, each followed by its value.
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// Where an entry lies.
#[derive(Clone, Copy)]
struct Place {
    /// The first bytes of the key behind the prefix, zeros behind the end: they settle most comparisons.
    head: u128,
    at: usize,
    key: u32,
    value: u32,
}

impl Run {
    /// An empty run for entries of these indexes, whose numbers rise.
    pub fn new(indexes: &[Arc<Index>]) -> Run {
        let part = |index: &Arc<Index>| Part {
            prefix: keys::index_prefix(index.id),
            bytes: Vec::new(),
            places: Vec::new(),
        };
        Run { parts: indexes.iter().map(part).collect(), bytes: 0 }
    }

    /// Adds an entry of the index with this place among the indexes.
    pub fn push(&mut self, index: usize, key: &[u8], id: &[u8], types: &[u8]) {
        let Part { prefix, bytes, places } = &mut self.parts[index];
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
        self.bytes >= RUN_BYTES
    }

    /// The entries in the order of their keys.
    pub fn sorted(&mut self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.parts.iter_mut().flat_map(|Part { bytes, places, .. }| {
            let bytes = bytes.as_slice();
            let key = |place: &Place| &bytes[place.at..][..place.key as usize];
            places.sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| key(a).cmp(key(b))));
            places.iter().map(move |place| {
                let (key, rest) = bytes[place.at..].split_at(place.key as usize);
                (key, &rest[..place.value as usize])
            })
        })
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.bytes = 0;
        for part in &mut self.parts {
            part.bytes.clear();
            part.places.clear();
        }
    }
}
