//! Locks that make a commit's conditions hold until it is applied.
//!
//! Keys are spread over stripes. A commit holds the stripes of its conditions' keys exclusively and those of the other
//! keys it writes shared, from before it checks the conditions until it is applied. So commits without conditions do not
//! exclude each other, and a commit with conditions excludes those that write the keys of its conditions. All stripes are
//! taken in ascending order, so no two commits wait for each other.

use crate::{Batch, Space};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const STRIPES: usize = 1024;

pub(super) struct KeyLocks(Vec<RwLock<()>>);

/// The stripes that a commit holds, until it is dropped.
pub(super) struct Held<'a> {
    shared: Vec<RwLockReadGuard<'a, ()>>,
    exclusive: Vec<RwLockWriteGuard<'a, ()>>,
}

/// A set of stripes, a bit for each.
#[derive(Default)]
struct Stripes([u64; STRIPES / 64]);

impl Stripes {
    fn add(&mut self, space: Space, key: &[u8]) {
        let stripe = xxh3_64_with_seed(key, space.index() as u64) as usize % STRIPES;
        self.0[stripe / 64] |= 1 << (stripe % 64);
    }
}

impl KeyLocks {
    pub fn new() -> Self {
        Self((0..STRIPES).map(|_| RwLock::new(())).collect())
    }

    /// Waits until no other commit has conditions on the keys that the batch writes, or writes the keys of its conditions.
    /// Such commits then wait until the returned locks are dropped.
    pub fn lock(&self, batch: &Batch) -> Held<'_> {
        let (mut written, mut required) = (Stripes::default(), Stripes::default());
        batch.writes().iter().for_each(|write| written.add(write.space, &write.key));
        batch.conditions().iter().for_each(|condition| required.add(condition.space, &condition.key));
        let mut held = Held { shared: Vec::with_capacity(batch.len().min(STRIPES)), exclusive: Vec::new() };
        for (word, (written, required)) in written.0.into_iter().zip(required.0).enumerate() {
            let mut rest = written | required;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                let stripe = &self.0[word * 64 + bit as usize];
                match required >> bit & 1 {
                    0 => held.shared.push(stripe.read()),
                    _ => held.exclusive.push(stripe.write()),
                }
            }
        }
        held
    }
}
