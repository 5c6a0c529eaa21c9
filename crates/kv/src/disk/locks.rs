//! Locks on keys that commits have conditions on: striped, so that there are few, taken in order, so that no two
//! commits wait for each other.

use crate::Condition;
use parking_lot::{Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const STRIPES: u64 = 256;

pub(super) struct KeyLocks(Vec<Mutex<()>>);

impl KeyLocks {
    pub fn new() -> Self {
        Self((0..STRIPES).map(|_| Mutex::new(())).collect())
    }

    /// Keeps other commits with conditions on the same keys out until the guards are dropped.
    pub fn lock(&self, conditions: &[Condition]) -> Vec<MutexGuard<'_, ()>> {
        let stripe = |c: &Condition| (xxh3_64_with_seed(&c.key, c.space.index() as u64) % STRIPES) as usize;
        let mut stripes: Vec<usize> = conditions.iter().map(stripe).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes.into_iter().map(|i| self.0[i].lock()).collect()
    }
}
