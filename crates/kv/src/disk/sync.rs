//! Durability: one sync of the journal serves all commits that wait for it.
//!
//! fjall writes a commit to its journal in the committing thread, which leaves the bytes with the operating
//! system. Asking fjall to sync would hold its journal's lock for as long as the disk takes, and stall every
//! writer. So the journal is synced through a file handle of its own: the syncing thread takes the number of the last
//! completed commit and syncs the newest journal, and thereby all commits up to that number; all callers that wait for
//! one of them are answered together. Commits that come during a sync form the next group.
//!
//! A caller that wants a commit durable while no sync is running syncs in its own thread, which saves a switch to
//! another. Callers that come during a sync are served together by the sync thread.
//!
//! Older journals need no sync: fjall syncs a journal before it begins the next one.
//!
//! Before each sync the new part of the journal is read back, which verifies it and finds its end; after the sync the
//! end is noted in the [mark](super::mark).
//!
//! Commits that no caller waits for are synced within [`LAZY`]. A failed sync poisons the engine: it is unknown which
//! bytes the disk holds.

use super::journals::{Journals, Point};
use super::mark::{Mark, Synced};
use super::poison::Poison;
use crate::{CommitId, DurableCallback, Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest time for which a commit that no caller waits for stays unsynced.
const LAZY: Duration = Duration::from_millis(100);

/// The handle of the sync thread.
pub(super) struct Syncer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    poison: Arc<Poison>,
    /// Held by the thread that syncs.
    journals: Mutex<Journals>,
    /// How many commits have completed: the id of the last.
    completed: AtomicU64,
    durable: AtomicU64,
    /// How far the journals are synced.
    synced: Mutex<Point>,
    /// How many bytes of the journals have not been released.
    held: AtomicU64,
    /// Set by the first commit after a sync began: another sync is due within [`LAZY`].
    due: AtomicBool,
    /// Whether the sync thread sleeps until it is woken; otherwise it checks every [`LAZY`] whether a sync is due.
    resting: AtomicBool,
    orders: Mutex<Orders>,
    wake: Condvar,
    done: Condvar,
}

/// An order to release the journals up to a point, and the channel for the answer.
type Release = (Point, std::sync::mpsc::SyncSender<Result<()>>);

#[derive(Default)]
struct Orders {
    /// The greatest commit that a caller waits for.
    requested: u64,
    waiting: Vec<(u64, DurableCallback)>,
    release: Option<Release>,
    /// How many threads wait for the next sync to end.
    blocked: usize,
    stop: bool,
}

impl Syncer {
    /// Starts the thread on the journals of `dir`, which are synced as far as `synced` says.
    pub fn start(dir: PathBuf, mark: Mark, synced: Vec<Synced>, poison: Arc<Poison>) -> Result<Self> {
        let context = "starting the sync thread";
        let journals = Journals::open(dir, mark, synced).map_err(|e| Error::io(context, e))?;
        let shared = Arc::new(Shared {
            poison,
            completed: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            synced: Mutex::new(journals.point()),
            held: AtomicU64::new(journals.held()),
            journals: Mutex::new(journals),
            due: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            orders: Mutex::default(),
            wake: Condvar::new(),
            done: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        let run = move || {
            while own.round() {}
            // A dropped reply channel tells a caller that its order was not carried out.
            lock(&own.orders).release = None;
        };
        let thread = std::thread::Builder::new().name("kv-sync".into()).spawn(run);
        let thread = thread.map_err(|e| Error::io(context, e))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Numbers a commit whose bytes have been written to the operating system.
    pub fn completed(&self) -> CommitId {
        let shared = &self.shared;
        let id = shared.completed.fetch_add(1, Ordering::SeqCst) + 1;
        if !shared.due.swap(true, Ordering::SeqCst) && shared.resting.load(Ordering::SeqCst) {
            let _orders = lock(&shared.orders);
            shared.wake.notify_one();
        }
        CommitId(id)
    }

    pub fn last_completed(&self) -> CommitId {
        CommitId(self.shared.completed.load(Ordering::SeqCst))
    }

    pub fn durable(&self) -> CommitId {
        CommitId(self.shared.durable.load(Ordering::SeqCst))
    }

    /// Makes a commit durable in this thread. `None` if another thread is syncing: then the caller uses
    /// [`Self::on_durable`] or [`Self::wait`].
    pub fn sync_here(&self, commit: CommitId) -> Option<Result<()>> {
        let shared = &self.shared;
        if self.durable() < commit {
            let mut journals = match shared.journals.try_lock() {
                Ok(journals) => journals,
                Err(TryLockError::Poisoned(journals)) => journals.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            };
            {
                let orders = lock(&shared.orders);
                let asked = orders.requested > shared.durable.load(Ordering::SeqCst);
                if asked && shared.alive(&orders).is_ok() {
                    return None;
                }
            }
            // Closing the engine syncs for the last time, and does not wait for later callers.
            if self.durable() < commit && shared.poison.check().is_ok() {
                shared.sync(&mut journals, None);
            }
        }
        Some(shared.outcome(commit.0))
    }

    pub fn on_durable(&self, commit: CommitId, callback: DurableCallback) {
        let shared = &self.shared;
        if self.durable() < commit {
            let mut orders = lock(&shared.orders);
            if self.durable() < commit && shared.alive(&orders).is_ok() {
                orders.requested = orders.requested.max(commit.0);
                orders.waiting.push((commit.0, callback));
                shared.wake.notify_one();
                return;
            }
        }
        callback(shared.outcome(commit.0));
    }

    pub fn wait(&self, commit: CommitId) -> Result<()> {
        if let Some(outcome) = self.sync_here(commit) {
            return outcome;
        }
        let shared = &self.shared;
        if self.durable() < commit {
            let mut orders = lock(&shared.orders);
            while self.durable() < commit && shared.alive(&orders).is_ok() {
                if orders.requested < commit.0 {
                    orders.requested = commit.0;
                    shared.wake.notify_one();
                }
                orders.blocked += 1;
                orders = shared.done.wait(orders).unwrap_or_else(PoisonError::into_inner);
                orders.blocked -= 1;
            }
        }
        shared.outcome(commit.0)
    }

    /// How far the journals are synced: at least as far as the last durable commit.
    pub fn synced(&self) -> Point {
        *lock(&self.shared.synced)
    }

    /// How many bytes of the journals have not been released.
    pub fn held(&self) -> u64 {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// Releases the journals' space up to a point. All commits up to it must be in tables. One caller at a time.
    pub fn release(&self, point: Point) -> Result<()> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        {
            let mut orders = lock(&self.shared.orders);
            self.shared.alive(&orders)?;
            orders.release = Some((point, sender));
            self.shared.wake.notify_one();
        }
        receiver.recv().unwrap_or_else(|_| self.shared.poison.check().and(Err(Error::Closed)))
    }

    /// Syncs everything, answers all callers and ends the thread.
    pub fn stop(&self) -> Result<()> {
        let Some(thread) = lock(&self.thread).take() else { return Ok(()) };
        let last = self.last_completed();
        let outcome = self.wait(last);
        lock(&self.shared.orders).stop = true;
        self.shared.wake.notify_one();
        // A thread that panicked has already answered its callers.
        let _ = thread.join();
        self.shared.done.notify_all();
        outcome
    }
}

impl Shared {
    fn alive(&self, orders: &Orders) -> Result<()> {
        self.poison.check()?;
        if orders.stop { Err(Error::Closed) } else { Ok(()) }
    }

    fn outcome(&self, commit: u64) -> Result<()> {
        if self.durable.load(Ordering::SeqCst) >= commit {
            return Ok(());
        }
        self.poison.check()?;
        Err(Error::Closed)
    }

    /// One step of the sync thread: waits for work and does it; false when the thread must end.
    fn round(&self) -> bool {
        let Some(release) = self.next_order() else { return false };
        let mut journals = lock(&self.journals);
        // After a failed sync in another thread there must be no other attempt.
        if self.poison.check().is_ok() {
            self.sync(&mut journals, release);
        }
        true
    }

    /// Syncs once and answers all callers whose commits are durable now. A panic, even in a callback, poisons the engine.
    fn sync(&self, journals: &mut Journals, release: Option<Release>) {
        let group = catch_unwind(AssertUnwindSafe(|| self.sync_and_answer(journals, release)));
        if group.is_err() {
            self.give_up();
        }
    }

    fn sync_and_answer(&self, journals: &mut Journals, release: Option<Release>) {
        // First the flag, then the number: a commit after this number raises the flag again.
        self.due.store(false, Ordering::SeqCst);
        let group = self.completed.load(Ordering::SeqCst);
        let outcome = journals.sync(group).and_then(|()| match &release {
            Some((point, _)) => journals.release(*point),
            None => Ok(()),
        });
        let outcome = outcome.map_err(|e| {
            self.poison.set(&format!("syncing the journal failed: {e}"));
            Error::io("syncing the journal", e)
        });
        if outcome.is_ok() {
            *lock(&self.synced) = journals.point();
            self.held.store(journals.held(), Ordering::SeqCst);
            self.durable.store(group, Ordering::SeqCst);
        }
        for (_, callback) in self.take_answered(group, outcome.is_err()) {
            callback(outcome.clone());
        }
        if let Some((_, reply)) = release {
            let _ = reply.send(outcome);
        }
    }

    /// After a panic, even in a callback, no caller may wait for ever.
    fn give_up(&self) {
        self.poison.set("a sync of the journal panicked");
        for (_, callback) in self.take_answered(0, true) {
            let outcome = self.poison.check();
            // A second panic needs no other reaction.
            let _ = catch_unwind(AssertUnwindSafe(|| callback(outcome)));
        }
    }

    /// Waits until a sync is requested or due. `None`: the thread must stop.
    fn next_order(&self) -> Option<Option<Release>> {
        let mut orders = lock(&self.orders);
        loop {
            self.poison.check().ok()?;
            if orders.release.is_some() || orders.requested > self.durable.load(Ordering::SeqCst) {
                return Some(orders.release.take());
            }
            if orders.stop {
                return None;
            }
            if self.due.load(Ordering::SeqCst) {
                // Commits set the flag again and again: checking it periodically costs them no wake-up.
                let timeout;
                (orders, timeout) =
                    self.wake.wait_timeout(orders, LAZY).unwrap_or_else(PoisonError::into_inner);
                if timeout.timed_out() && self.due.load(Ordering::SeqCst) {
                    return Some(orders.release.take());
                }
                continue;
            }
            // First this flag, then the other again: a commit sets them in the opposite order.
            self.resting.store(true, Ordering::SeqCst);
            if !self.due.load(Ordering::SeqCst) {
                orders = self.wake.wait(orders).unwrap_or_else(PoisonError::into_inner);
            }
            self.resting.store(false, Ordering::SeqCst);
        }
    }

    /// Takes the callbacks of durable commits, and wakes the threads that wait.
    fn take_answered(&self, group: u64, all: bool) -> Vec<(u64, DurableCallback)> {
        let mut orders = lock(&self.orders);
        if orders.blocked > 0 {
            self.done.notify_all();
        }
        let waiting = std::mem::take(&mut orders.waiting);
        let (answered, waiting) = waiting.into_iter().partition(|(id, _)| all || *id <= group);
        orders.waiting = waiting;
        answered
    }
}

/// Locks, whether or not a holder has panicked. These are the standard library's locks: a waiting thread sleeps, where
/// parking_lot's would first yield the processor several times.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
