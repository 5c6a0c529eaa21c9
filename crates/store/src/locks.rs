//! Locks of keys: writers of one document take turns, writers of different documents do not block each other.
//!
//! A locked key is an entry in a table, under a 64-bit hash of its owner (a collection or an index) and the key. If two
//! keys have the same hash, which is very rare, their writers only wait for each other. The table consists of shards,
//! each of which is locked only to add or remove entries. Keys that are not locked take no memory, however many
//! collections exist. A request that locks a thousand keys of one collection does not block writers of others.
//!
//! These locks and the lock of the [sequence](crate::collection) are the standard library's, whose waiters sleep.
//! parking_lot's waiters yield the processor several times first. On a busy machine, each yield costs a time slice.
//!
//! A lock is held for one write. What a transaction has written is claimed until it ends: whoever locks a claimed key
//! unlocks it again and waits for the transaction, or fails.

use crate::transaction::{Claimant, Claims};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of shards, a power of two: so many that two writers seldom need one at the same moment.
const SHARDS: u32 = 128;

/// A table of locked keys.
pub(crate) struct LockTable {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    /// The keys that transactions have written. A claim begins while the key is locked.
    claims: Claims,
}

/// The entries of one range of hashes.
type Shard = HashMap<u64, LockedKey, BuildHasherDefault<Hashed>>;

/// The entry of a key that is locked or waited for.
struct LockedKey {
    locked: bool,
    waiting: usize,
    /// Wakes the waiters. Created for the first waiter.
    freed: Option<Arc<Condvar>>,
}

/// A hasher of keys that are hashes already. It moves the leading bits, which are the same for all keys of a shard, to
/// the end.
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

/// A guard of one locked key.
pub(crate) struct HeldOne<'a> {
    table: &'a LockTable,
    hash: u64,
}

/// A guard of several locked keys.
pub(crate) struct Held<'a> {
    table: &'a LockTable,
    /// In ascending order, so the hashes of one shard are adjacent.
    hashes: Vec<u64>,
}

impl LockTable {
    /// A table without locked keys.
    pub fn new() -> LockTable {
        LockTable::with_shards(SHARDS)
    }

    /// A small table, for one writer.
    pub fn small() -> LockTable {
        LockTable::with_shards(1)
    }

    fn with_shards(shards: u32) -> LockTable {
        LockTable {
            shards: (0..shards).map(|_| Mutex::new(Shard::default())).collect(),
            hasher: RandomState::new(),
            claims: Claims::default(),
        }
    }

    /// The transaction that has claimed one of the locked keys.
    pub fn claimant(&self, locked: &[u64]) -> Option<Arc<Claimant>> {
        self.claims.find(locked)
    }

    /// Whether transactions have claims.
    pub fn has_claims(&self) -> bool {
        !self.claims.is_empty()
    }

    /// Claims a key for a transaction, and returns its hash. Fails with the other transaction if one has the key, and
    /// with `None` if a writer keeps it locked for longer than `patience`.
    pub fn claim(
        &self,
        owner: u32,
        key: &[u8],
        claimant: &Arc<Claimant>,
        patience: Duration,
    ) -> Result<u64, Option<Arc<Claimant>>> {
        let hash = self.hash(owner, key);
        if self.claims.is_held_by(hash, claimant) {
            return Ok(hash);
        }
        drop(enter(lock(self.shard(hash)), hash, Some(Instant::now() + patience)).ok_or(None)?);
        let _held = HeldOne { table: self, hash };
        self.claims.add(hash, claimant).map_or(Ok(hash), |other| Err(Some(other)))
    }

    /// Ends the claims on these keys.
    pub fn release(&self, hashes: impl Iterator<Item = u64>) {
        self.claims.remove(hashes);
    }

    /// Locks the keys that a transaction has claimed.
    pub fn lock_claimed(&self, hashes: Vec<u64>) -> Held<'_> {
        self.lock_hashes(hashes)
    }

    /// Locks one key.
    pub fn lock_one(&self, owner: u32, key: &[u8]) -> HeldOne<'_> {
        let hash = self.hash(owner, key);
        drop(enter(lock(self.shard(hash)), hash, None));
        HeldOne { table: self, hash }
    }

    /// Locks several keys. All callers take them in the same order, so they cannot deadlock. A caller must not hold
    /// another lock of the same table.
    pub fn lock_many<'k>(&self, keys: impl Iterator<Item = (u32, &'k [u8])>) -> Held<'_> {
        self.lock_hashes(keys.map(|(owner, key)| self.hash(owner, key)).collect())
    }

    fn lock_hashes(&self, mut hashes: Vec<u64>) -> Held<'_> {
        hashes.sort_unstable();
        hashes.dedup();
        for run in hashes.chunk_by(|one, other| shard_of(*one) == shard_of(*other)) {
            let mut shard = Some(lock(self.shard(run[0])));
            for &hash in run {
                shard = shard.and_then(|shard| enter(shard, hash, None));
            }
        }
        Held { table: self, hashes }
    }

    fn hash(&self, owner: u32, key: &[u8]) -> u64 {
        self.hasher.hash_one((owner, key))
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[shard_of(hash) % self.shards.len()]
    }
}

/// The shard of a hash, by its leading bits.
fn shard_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SHARDS.trailing_zeros())) as usize
}

/// Locks a key of a shard. Waits while another thread has it; `None` if that takes until `deadline`.
fn enter(
    mut shard: MutexGuard<'_, Shard>,
    hash: u64,
    deadline: Option<Instant>,
) -> Option<MutexGuard<'_, Shard>> {
    let entry = shard.entry(hash).or_insert(LockedKey { locked: false, waiting: 0, freed: None });
    if !entry.locked {
        entry.locked = true;
        return Some(shard);
    }
    entry.waiting += 1;
    let freed = entry.freed.get_or_insert_default().clone();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        shard = match left {
            None => freed.wait(shard).unwrap_or_else(PoisonError::into_inner),
            Some(left) => freed.wait_timeout(shard, left).unwrap_or_else(PoisonError::into_inner).0,
        };
        // The entry exists as long as a thread waits for it.
        let Some(entry) = shard.get_mut(&hash) else { continue };
        if !entry.locked {
            entry.locked = true;
            entry.waiting -= 1;
            return Some(shard);
        }
        if left == Some(Duration::ZERO) {
            entry.waiting -= 1;
            return None;
        }
    }
}

/// Unlocks a key of a shard.
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

impl HeldOne<'_> {
    /// The locked key's hash.
    pub fn hashes(&self) -> &[u64] {
        std::slice::from_ref(&self.hash)
    }
}

impl Held<'_> {
    /// The locked keys' hashes.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
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

/// Locks a mutex, also after a holder has panicked.
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
    fn locks_of_one_owner_do_not_block_those_of_another() {
        let table = LockTable::new();
        let keys: Vec<[u8; 4]> = (0..20_000u32).map(u32::to_be_bytes).collect();
        let held = table.lock_many(keys.iter().map(|key| (1, key.as_slice())));
        assert_eq!(locked(&table), keys.len());
        // None of these calls blocks.
        for key in &keys {
            drop(table.lock_one(2, key));
        }
        drop(table.lock_many(keys.iter().map(|key| (3, key.as_slice()))));
        drop(held);
        assert_eq!(locked(&table), 0);
    }

    #[test]
    fn a_key_has_one_holder_at_a_time() {
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
    fn a_waiter_gets_the_key_when_it_is_unlocked() {
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
