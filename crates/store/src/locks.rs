//! Striped locks over keys: writers of one document take turns, writers of different ones seldom meet.
//!
//! They and the lock of the [sequence](crate::collection) are the standard library's: who waits sleeps. parking_lot's
//! waiters yield the processor several times first, and where others compute, each time costs a time slice.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many stripes there are: enough that 64 writers seldom meet by chance.
const STRIPES: usize = 4096;

/// A table of locks that keys are hashed onto.
pub struct Stripes {
    locks: Vec<Mutex<()>>,
    hasher: RandomState,
}

/// The held locks of some keys.
pub struct Held<'a> {
    _guards: Vec<MutexGuard<'a, ()>>,
}

impl Stripes {
    /// A table of free locks.
    pub fn new() -> Stripes {
        Stripes { locks: (0..STRIPES).map(|_| Mutex::new(())).collect(), hasher: RandomState::new() }
    }

    /// Locks one key.
    pub fn lock_one(&self, owner: u32, key: &[u8]) -> MutexGuard<'_, ()> {
        lock(&self.locks[self.stripe(owner, key)])
    }

    /// Locks several keys at once. Stripes are taken in ascending order, so that two callers never wait for each
    /// other; a caller must not hold another lock of the same table.
    pub fn lock_many<'k>(&self, keys: impl Iterator<Item = (u32, &'k [u8])>) -> Held<'_> {
        let mut stripes: Vec<usize> = keys.map(|(owner, key)| self.stripe(owner, key)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        Held { _guards: stripes.into_iter().map(|stripe| lock(&self.locks[stripe])).collect() }
    }

    fn stripe(&self, owner: u32, key: &[u8]) -> usize {
        self.hasher.hash_one((owner, key)) as usize % STRIPES
    }
}

/// Locks, whether or not a holder has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
