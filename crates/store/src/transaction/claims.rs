//! Claims: what a transaction has written, and nobody else may write until the transaction ends.

use crate::error::{Error, Result};
use diwan_query::Interrupt;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many writers may wait for transactions at once, each with a thread.
pub const MAX_WAITING_WRITERS: usize = 128;

/// How often a waiting writer checks whether it was interrupted.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// A transaction that has claims.
#[derive(Debug, Default)]
pub struct Claimant {
    waiting: Mutex<Waiting>,
    ended: Condvar,
}

/// Who waits for a transaction.
#[derive(Default)]
struct Waiting {
    has_ended: bool,
    /// What to call for those that wait without a thread.
    wakers: Vec<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

impl Claimant {
    /// Calls `wake` when the transaction has ended, for a writer that waits without a thread.
    pub fn on_end(&self, wake: Box<dyn FnOnce() + Send>) {
        let mut waiting = self.waiting.lock();
        if !waiting.has_ended {
            waiting.wakers.push(wake);
            return;
        }
        drop(waiting);
        wake();
    }

    /// Wakes the writers that wait for the transaction.
    pub(super) fn end(&self) {
        let mut waiting = self.waiting.lock();
        waiting.has_ended = true;
        let wakers = std::mem::take(&mut waiting.wakers);
        drop(waiting);
        self.ended.notify_all();
        wakers.into_iter().for_each(|wake| wake());
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether a transaction has claimed a key.
    pub fn is_held_by(&self, hash: u64, claimant: &Arc<Claimant>) -> bool {
        self.claimants.read().get(&hash).is_some_and(|holder| Arc::ptr_eq(holder, claimant))
    }

    /// Claims a key. Returns the transaction that has it if it is another one.
    pub fn add(&self, hash: u64, claimant: &Arc<Claimant>) -> Option<Arc<Claimant>> {
        let mut claimants = self.claimants.write();
        let holder = claimants.entry(hash).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::Relaxed);
            claimant.clone()
        });
        (!Arc::ptr_eq(holder, claimant)).then(|| holder.clone())
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

/// Limits how many writers wait for transactions with a thread.
#[derive(Debug)]
pub(crate) struct ClaimWaiters {
    limit: usize,
    count: AtomicUsize,
}

impl ClaimWaiters {
    /// For writers outside of transactions.
    pub fn new() -> ClaimWaiters {
        ClaimWaiters { limit: MAX_WAITING_WRITERS, count: AtomicUsize::new(0) }
    }

    /// For a transaction, which does not wait for another one.
    pub fn none() -> ClaimWaiters {
        ClaimWaiters { limit: 0, count: AtomicUsize::new(0) }
    }

    /// Runs `attempt` again and again while a transaction has claimed what it writes, and waits for that transaction in
    /// between. The attempt holds no lock when it fails. Without an interrupt it runs once: what nothing can interrupt
    /// does not wait.
    pub fn admit<T>(
        &self,
        interrupt: Option<&Interrupt>,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            match (attempt(), interrupt) {
                (Err(Error::Claimed(claimant)), Some(interrupt)) => self.wait(&claimant, interrupt)?,
                (outcome, _) => return outcome,
            }
        }
    }

    /// Waits until a transaction has ended. Fails with [`Error::Claimed`] if too many wait already.
    pub fn wait(&self, claimant: &Arc<Claimant>, interrupt: &Interrupt) -> Result<()> {
        let others = self.count.fetch_add(1, Ordering::Relaxed);
        let outcome = if others >= self.limit {
            Err(Error::Claimed(claimant.clone()))
        } else {
            let mut waiting = claimant.waiting.lock();
            loop {
                if waiting.has_ended {
                    break Ok(());
                }
                if let Err(error) = interrupt.check_waiting() {
                    break Err(error.into());
                }
                claimant.ended.wait_for(&mut waiting, CHECK_EVERY);
            }
        };
        self.count.fetch_sub(1, Ordering::Relaxed);
        outcome
    }
}
