//! The state of `$minN`, `$maxN`, `$top`, `$topN`, `$bottom` and `$bottomN`: the n smallest or greatest values by a
//! key.

use super::kept::Kept;
use diwan_value::key::{Direction, encode_order};
use diwan_value::{Array, ArrayBuilder, Collator, Value};
use std::collections::BTreeMap;

/// Which end of the order to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// The smallest keys.
    Least,
    /// The greatest keys.
    Greatest,
}

/// At most `n` values, ordered by their keys. Of equal keys, the first ones stay.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    keep: Keep,
    n: usize,
    /// Ordered by key and arrival number.
    entries: BTreeMap<(Vec<u8>, u64), Kept>,
    arrivals: u64,
    bytes: usize,
    scratch: Vec<u8>,
}

impl Ranking {
    pub fn new(keep: Keep, n: usize) -> Ranking {
        Ranking { keep, n, entries: BTreeMap::new(), arrivals: 0, bytes: 0, scratch: Vec::new() }
    }

    /// Adds a value that is its own key.
    pub fn add_value(&mut self, value: Value<'_>, collator: Option<&Collator>) {
        let mut key = std::mem::take(&mut self.scratch);
        key.clear();
        encode_order(&mut key, value, Direction::Ascending, collator);
        self.add(&key, value);
        self.scratch = key;
    }

    /// Adds a value under an order-preserving key.
    pub fn add(&mut self, key: &[u8], value: Value<'_>) {
        if self.entries.len() >= self.n {
            let worst = match self.keep {
                Keep::Least => self.entries.last_key_value(),
                Keep::Greatest => self.entries.first_key_value(),
            };
            let Some(((worst, _), _)) = worst else { return };
            let better = match self.keep {
                Keep::Least => key < worst.as_slice(),
                Keep::Greatest => key > worst.as_slice(),
            };
            if !better {
                return;
            }
            let removed = match self.keep {
                Keep::Least => self.entries.pop_last(),
                Keep::Greatest => self.entries.pop_first(),
            };
            self.bytes -= removed.map_or(0, |((key, _), kept)| entry_bytes(&key, &kept));
        }
        let kept = Kept::new(value);
        self.bytes += entry_bytes(key, &kept);
        self.entries.insert((key.to_vec(), self.arrivals), kept);
        self.arrivals += 1;
    }

    /// The values in ascending order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = Value<'_>> {
        self.entries.values().map(Kept::value)
    }

    /// The one value of `$top` and `$bottom`.
    pub fn first(&self) -> Option<Value<'_>> {
        self.values().next()
    }

    pub fn save(&self) -> ArrayBuilder {
        let mut parts = ArrayBuilder::new();
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|((_, arrival), _)| *arrival);
        for ((key, _), kept) in entries {
            parts.push(Value::Binary { subtype: 0, bytes: key }).push(kept.value());
        }
        parts
    }

    pub fn absorb(&mut self, saved: Array<'_>) {
        let mut parts = saved.iter();
        while let (Some(Value::Binary { bytes, .. }), Some(value)) = (parts.next(), parts.next()) {
            self.add(bytes, value);
        }
    }

    pub fn memory(&self) -> usize {
        self.bytes
    }
}

fn entry_bytes(key: &[u8], kept: &Kept) -> usize {
    key.len() + kept.memory() + size_of::<Kept>() + size_of::<(Vec<u8>, u64)>()
}
