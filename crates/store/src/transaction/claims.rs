//! Claims: what a transaction has written, and nobody else may write until the transaction ends.

use crate::error::{Error, Result};
use diwan_query::Interrupt;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many writers may wait for transactions at once. Each keeps a thread, and the commits that they wait for need some.
const MAX_WAITERS: usize = 128;

/// How often a waiting writer checks whether it was interrupted.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// A transaction that has claims.
#[derive(Debug, Default)]
pub struct Claimant {
    has_ended: Mutex<bool>,
    ended: Condvar,
}

impl Claimant {
    /// Wakes the writers that wait for the transaction.
    pub(super) fn end(&self) {
        *self.has_ended.lock() = true;
        self.ended.notify_all();
    }
}

/// The claims on the keys of a table of locks, by the hashes of the keys.
#[derive(Default)]
pub(crate) struct Claims {
    claimants: RwLock<HashMap<u64, Arc<Claimant>>>,
    /// How many claims there are. Writers read it under the lock of their key, under which claims are made.
    count: AtomicUsize,
}

impl Claims {
    /// A transaction that has claimed one of the keys.
    pub fn find(&self, hashes: &[u64]) -> Option<Arc<Claimant>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let claimants = self.claimants.read();
        hashes.iter().find_map(|hash| claimants.get(hash)).cloned()
    }

    /// Whether a transaction has claimed a key.
    pub fn is_held_by(&self, hash: u64, claimant: &Arc<Claimant>) -> bool {
        self.claimants.read().get(&hash).is_some_and(|holder| Arc::ptr_eq(holder, claimant))
    }

    /// Claims a key. False if another transaction has it.
    pub fn add(&self, hash: u64, claimant: &Arc<Claimant>) -> bool {
        let mut claimants = self.claimants.write();
        let holder = claimants.entry(hash).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::Relaxed);
            claimant.clone()
        });
        Arc::ptr_eq(holder, claimant)
    }

    /// Ends claims.
    pub fn remove(&self, hashes: impl Iterator<Item = u64>) {
        let mut claimants = self.claimants.write();
        for hash in hashes {
            if claimants.remove(&hash).is_some() {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Limits how many writers wait for transactions.
#[derive(Debug, Default)]
pub(crate) struct ClaimWaiters(AtomicUsize);

impl ClaimWaiters {
    /// Runs `attempt` again and again while a transaction has claimed what it writes, and waits for that transaction in
    /// between. The attempt holds no lock when it fails.
    pub fn admit<T>(
        &self,
        interrupt: Option<&Interrupt>,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            match attempt() {
                Err(Error::Claimed(claimant)) => self.wait(&claimant, interrupt)?,
                outcome => return outcome,
            }
        }
    }

    fn wait(&self, claimant: &Arc<Claimant>, interrupt: Option<&Interrupt>) -> Result<()> {
        let others = self.0.fetch_add(1, Ordering::Relaxed);
        let outcome = if others >= MAX_WAITERS {
            Err(Error::Claimed(claimant.clone()))
        } else {
            let mut has_ended = claimant.has_ended.lock();
            loop {
                if *has_ended {
                    break Ok(());
                }
                claimant.ended.wait_for(&mut has_ended, CHECK_EVERY);
                if let Some(Err(error)) = interrupt.map(Interrupt::check) {
                    break Err(error.into());
                }
            }
        };
        self.0.fetch_sub(1, Ordering::Relaxed);
        outcome
    }
}
