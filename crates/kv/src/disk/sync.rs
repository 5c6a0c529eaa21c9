//! Durability: the journal is synced for all who wait at once.
//!
//! fjall writes a commit to its journal in the committing thread, which leaves the bytes with the operating
//! system. Asking fjall to sync would hold its journal's lock for as long as the disk takes, and stall every
//! writer. So we sync through a file handle of our own: take the number of the last completed commit, sync the
//! newest journal, and thereby all commits up to that number; all who waited for one of them are answered
//! together. While the disk works, the next group gathers.
//!
//! Who wants a commit durable while nobody syncs does it in its own thread, which costs no switch to another.
//! Whoever comes while the disk works is served by the sync thread, with all who came meanwhile.
//!
//! Older journals need no sync: fjall syncs a journal before it begins the next one.
//!
//! Before each sync what was added to the journal is read, which checks that it is what was committed and tells
//! how far it goes; after the sync that is noted in the [mark](super::mark).
//!
//! Commits that nobody waits for are synced within [`LAZY`]. A failed sync poisons the engine: after it, nobody
//! can know which bytes the disk holds.

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

/// How long a commit that nobody waits for stays unsynced.
const LAZY: Duration = Duration::from_millis(100);

/// The handle on the sync thread.
pub(super) struct Syncer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    poison: Arc<Poison>,
    /// Held by whoever syncs.
    journals: Mutex<Journals>,
    /// How many commits have completed: the id of the last.
    completed: AtomicU64,
    durable: AtomicU64,
    /// How far the journals are synced.
    synced: Mutex<Point>,
    /// How many bytes the journals hold that have not been released.
    held: AtomicU64,
    /// Set by the first commit after a sync began: another is due within [`LAZY`].
    due: AtomicBool,
    /// Whether the sync thread sleeps until it is woken; else it looks every [`LAZY`] whether a sync is due.
    resting: AtomicBool,
    orders: Mutex<Orders>,
    wake: Condvar,
    done: Condvar,
}

/// An order to release the journals up to a point, and where to answer.
type Release = (Point, std::sync::mpsc::SyncSender<Result<()>>);

#[derive(Default)]
struct Orders {
    /// The greatest commit that somebody waits for.
    requested: u64,
    waiting: Vec<(u64, DurableCallback)>,
    release: Option<Release>,
    /// How many threads wait for the next sync to end.
    blocked: usize,
    stop: bool,
}

impl Syncer {
    /// Starts the thread over the journals of `dir`, of which `synced` is known.
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
            // Whoever gave an order that was not carried out learns so when its reply channel goes.
            lock(&own.orders).release = None;
        };
        let thread = std::thread::Builder::new().name("kv-sync".into()).spawn(run);
        let thread = thread.map_err(|e| Error::io(context, e))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Numbers a commit whose bytes the operating system has.
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

    /// Makes a commit durable in this thread, unless others are at it: then `None`, and it is for
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
            // What closes the engine syncs for the last time, and waits for nobody who comes later.
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

    /// How many bytes the journals hold that have not been released.
    pub fn held(&self) -> u64 {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// Frees the space of what the journals hold up to a point. All commits up to there must be in tables. One
    /// caller at a time.
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

    /// Syncs everything, answers everybody and ends the thread.
    pub fn stop(&self) -> Result<()> {
        let Some(thread) = lock(&self.thread).take() else { return Ok(()) };
        let last = self.last_completed();
        let outcome = self.wait(last);
        lock(&self.shared.orders).stop = true;
        self.shared.wake.notify_one();
        // What it panics with, it has answered itself.
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

    /// The sync thread's: waits for work and does it; false when the thread is to end.
    fn round(&self) -> bool {
        let Some(release) = self.next_order() else { return false };
        let mut journals = lock(&self.journals);
        // Whoever synced before may have failed, and then nobody must try again.
        if self.poison.check().is_ok() {
            self.sync(&mut journals, release);
        }
        true
    }

    /// Syncs once and answers all whose commits are durable now. A panic, be it a callback's, poisons the engine.
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

    /// After a panic, be it a callback's: nobody must wait for ever.
    fn give_up(&self) {
        self.poison.set("a sync of the journal panicked");
        for (_, callback) in self.take_answered(0, true) {
            let outcome = self.poison.check();
            // A second panic changes nothing.
            let _ = catch_unwind(AssertUnwindSafe(|| callback(outcome)));
        }
    }

    /// Waits until a sync is asked for, or due. `None`: the thread is to stop.
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
                // Commits under way set the flag again and again: a look now and then costs them no wake-up.
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

    /// Takes the callbacks of those who are to be answered, and wakes the threads that wait.
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

/// Locks, whether or not a holder has panicked. The standard library's locks: who waits for them sleeps, where
/// parking_lot's would first yield the processor to whoever computes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
