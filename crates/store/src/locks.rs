//! Locks of keys: writers of one document take turns, writers of different ones do not meet.
//!
//! A key that is locked is an entry in a table, under a hash of 64 bits of its owner (a collection, an index) and itself;
//! two different keys have the same one as good as never, and if they do they only wait for each other. The table is in
//! shards, each held only to add or remove entries. What is not locked takes no memory, however many collections there
//! are, and a request that locks a thousand keys of one collection is in nobody else's way.
//!
//! The locks and the lock of the [sequence](crate::collection) are the standard library's: who waits sleeps. parking_lot's
//! waiters yield the processor several times first, and where others compute, each time costs a time slice.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How many shards there are, a power of two: enough that writers seldom want one at the same moment.
const SHARDS: u32 = 128;

/// A table of the keys that are locked.
pub struct LockTable {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
}

/// The entries of some hashes.
type Shard = HashMap<u64, Entry, BuildHasherDefault<Hashed>>;

/// A key that is locked, or waited for.
struct Entry {
    locked: bool,
    waiting: usize,
    /// Where they wait; made for the first.
    freed: Option<Arc<Condvar>>,
}

/// Hands on what is a hash already, without the bits that all of a shard have in common in front.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0.rotate_left(SHARDS.trailing_zeros())
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A locked key.
pub struct HeldOne<'a> {
    table: &'a LockTable,
    hash: u64,
}

/// Locked keys.
pub struct Held<'a> {
    table: &'a LockTable,
    /// In ascending order: those of a shard are together.
    hashes: Vec<u64>,
}

impl LockTable {
    /// A table without locked keys.
    pub fn new() -> LockTable {
        LockTable {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Locks one key.
    pub fn lock_one(&self, owner: u32, key: &[u8]) -> HeldOne<'_> {
        let hash = self.hash(owner, key);
        drop(enter(lock(self.shard(hash)), hash));
        HeldOne { table: self, hash }
    }

    /// Locks several keys at once. They are taken in one order, so that two callers never wait for each other; a caller
    /// must not hold another lock of the same table.
    pub fn lock_many<'k>(&self, keys: impl Iterator<Item = (u32, &'k [u8])>) -> Held<'_> {
        let mut hashes: Vec<u64> = keys.map(|(owner, key)| self.hash(owner, key)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        for run in hashes.chunk_by(|one, other| shard_of(*one) == shard_of(*other)) {
            let mut shard = lock(self.shard(run[0]));
            for &hash in run {
                shard = enter(shard, hash);
            }
        }
        Held { table: self, hashes }
    }

    fn hash(&self, owner: u32, key: &[u8]) -> u64 {
        self.hasher.hash_one((owner, key))
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[shard_of(hash)]
    }
}

/// Which shard a hash belongs to, by its first bits.
fn shard_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SHARDS.trailing_zeros())) as usize
}

/// Locks a key of a shard; waits while somebody else has it.
fn enter(mut shard: MutexGuard<'_, Shard>, hash: u64) -> MutexGuard<'_, Shard> {
    let entry = shard.entry(hash).or_insert(Entry { locked: false, waiting: 0, freed: None });
    if !entry.locked {
        entry.locked = true;
        return shard;
    }
    entry.waiting += 1;
    let freed = entry.freed.get_or_insert_default().clone();
    loop {
        shard = freed.wait(shard).unwrap_or_else(PoisonError::into_inner);
        // It stays as long as somebody waits.
        let Some(entry) = shard.get_mut(&hash) else { continue };
        if !entry.locked {
            entry.locked = true;
            entry.waiting -= 1;
            return shard;
        }
    }
}

/// Frees a key of a shard.
fn leave(shard: &mut Shard, hash: u64) {
    let Some(entry) = shard.get_mut(&hash) else { return };
    if entry.waiting == 0 {
        shard.remove(&hash);
        return;
    }
    entry.locked = false;
    if let Some(freed) = &entry.freed {
        freed.notify_one();
    }
}

impl Drop for HeldOne<'_> {
    fn drop(&mut self) {
        leave(&mut lock(self.table.shard(self.hash)), self.hash);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for run in self.hashes.chunk_by(|one, other| shard_of(*one) == shard_of(*other)) {
            let mut shard = lock(self.table.shard(run[0]));
            run.iter().for_each(|&hash| leave(&mut shard, hash));
        }
    }
}

/// Locks, whether or not a holder has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn locked(table: &LockTable) -> usize {
        table.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    #[test]
    fn keys_of_one_collection_do_not_lock_those_of_another() {
        let table = LockTable::new();
        let keys: Vec<[u8; 4]> = (0..20_000u32).map(u32::to_be_bytes).collect();
        let held = table.lock_many(keys.iter().map(|key| (1, key.as_slice())));
        assert_eq!(locked(&table), keys.len());
        // None of these waits.
        for key in &keys {
            drop(table.lock_one(2, key));
        }
        drop(table.lock_many(keys.iter().map(|key| (3, key.as_slice()))));
        drop(held);
        assert_eq!(locked(&table), 0);
    }

    #[test]
    fn a_key_has_one_holder() {
        let table = LockTable::new();
        let (inside, entered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let (table, inside, entered) = (&table, &inside, &entered);
                scope.spawn(move || {
                    for round in 0..500u32 {
                        let own = (thread * 500 + round).to_be_bytes();
                        let keys: [&[u8]; 3] = [b"shared", &own, b"shared"];
                        let one = (round % 3 == 0).then(|| table.lock_one(1, b"shared"));
                        let many =
                            (round % 3 != 0).then(|| table.lock_many(keys.iter().map(|key| (1, *key))));
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        entered.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop((one, many));
                    }
                });
            }
        });
        assert_eq!((entered.into_inner(), locked(&table)), (4000, 0));
    }

    #[test]
    fn a_waiter_is_woken_when_the_key_is_free() {
        let table = LockTable::new();
        let held = table.lock_one(1, b"key");
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            let table = &table;
            scope.spawn(move || {
                let _held = table.lock_many([(1, &b"key"[..]), (1, b"other")].into_iter());
                sender.send(()).unwrap();
            });
            assert!(receiver.recv_timeout(Duration::from_millis(20)).is_err());
            drop(held);
            receiver.recv().unwrap();
        });
        assert_eq!(locked(&table), 0);
    }
}
