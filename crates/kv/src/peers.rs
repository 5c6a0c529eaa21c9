//! What an engine offers where several processes write one store.
//!
//! Each process keeps state in memory that only the store's contents justify: the sequence of a collection, its schema, pages of
//! the cache. That state is exact as of one state of the store, and an engine that has [`Peers`] keeps it so:
//! - A write is evaluated within a [turn](Turns::enter). Its commit is refused with [`Error::Stale`] if another process has
//!   written since; nothing is written then. The caller ends its turn, has other processes [kept out](Peers::keep_out), and
//!   evaluates the write again. Where other processes write often, it has them kept out before the first evaluation. [`evaluate`]
//!   does all of this.
//! - The [observer](Peers::observe) is told what others have written, while no turn is taken in this process. It brings the
//!   state in memory up to date.
//! - The [marker](Peers::mark) is told earlier: before a snapshot of this process shows the change.
//!
//! So a process that writes alone pays nothing, and processes that write at the same time take turns.

use crate::{Bytes, Error, KeyRange, Result, Space};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What other processes have written, in one commit or several. Spaces that nobody caches may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Some keys.
    Keys {
        /// The keys, each put or deleted.
        keys: Vec<(Space, Bytes)>,
        /// The [notes](crate::Batch::note) of the batches, in their order.
        notes: Vec<Bytes>,
    },
    /// Some keys in these ranges.
    Ranges(Vec<(Space, KeyRange)>),
    /// Perhaps every key.
    Everything,
}

/// Is told what others have written before a snapshot shows it. Must be short and take no lock under which the engine is called.
pub type Marker = Box<dyn Fn(&Changes) + Send + Sync>;

/// Is told what others have written, while no turn is taken. May read. After an error it is told the same again.
pub type Observer = Box<dyn Fn(&Changes) -> Result<()> + Send + Sync>;

/// The part of an engine that knows of the other processes.
pub trait Peers: Send + Sync {
    /// The number of this process among those that have opened the store. It is never given again.
    fn own(&self) -> u32;

    /// Whether a process has a session at present. One that was cut off from the store may come back.
    fn lives(&self, process: u32) -> Result<bool>;

    /// Whether a process has been gone for so long that it does not come back.
    fn is_gone(&self, process: u32) -> Result<bool>;

    /// Whether this process does the work in the background that one process does for all.
    fn leads(&self) -> bool;

    /// Sets the marker. Only the first call has an effect.
    fn mark(&self, marker: Marker);

    /// Sets the observer. Only the first call has an effect.
    fn observe(&self, observer: Observer);

    /// The turns of this process's writes.
    fn turns(&self) -> &Turns;

    /// Tells the observer of all that others have committed before this call. Within a turn it does nothing: the commit will tell.
    fn catch_up(&self) -> Result<()>;

    /// Whether the observer has been told of everything, for sure, without asking the store.
    fn is_caught_up(&self) -> bool;

    /// Whether others write so often that a commit of this process would probably be refused, unless they are kept out.
    fn is_contended(&self) -> bool;

    /// Waits until no other process can commit, and tells the observer of all that they have committed. They can commit again
    /// some time after this thread has made these commits or dropped the result, or if that takes too long.
    fn keep_out(&self, commits: Commits) -> Result<KeptOut<'_>>;
}

/// How many commits a write makes in one turn. It decides for how long other processes are kept out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commits {
    /// At most one. Others may commit after it.
    One,
    /// Perhaps several. Others may commit when the write has ended: if one did so between them, all would be made again.
    Several,
}

/// Evaluates a write in turns of its own, until its commit is not refused any more. `attempt` begins the turn. When it fails, it
/// holds no lock, and may be repeated. `is_stale` says whether it failed because a commit was refused.
pub fn evaluate<T, E: From<Error>>(
    peers: &dyn Peers,
    commits: Commits,
    is_stale: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    // Within a turn the state in memory cannot be brought up to date: whoever began it begins again.
    if peers.turns().is_inside() {
        return attempt();
    }
    let mut is_refused = false;
    loop {
        let _others = if is_refused || peers.is_contended() { Some(peers.keep_out(commits)?) } else { None };
        match attempt() {
            Err(error) if is_stale(&error) => is_refused = true,
            outcome => return outcome,
        }
    }
}

thread_local! {
    /// The addresses of the [`Turns`] that this thread has entered, the outermost first.
    static ENTERED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };

    /// The addresses of those for which this thread evaluates a write while others are kept out, and the write's commits.
    static KEEPING: RefCell<Vec<(usize, Commits)>> = const { RefCell::new(Vec::new()) };
}

/// The turns in which a process evaluates writes: many at a time, but none while the process learns what others have written.
#[derive(Default)]
pub struct Turns {
    lock: RwLock<()>,
    awaited: AtomicUsize,
}

/// A turn. It belongs to the thread that has entered it.
pub struct Turn<'a> {
    turns: &'a Turns,
    // None in a turn within another of the same thread: a thread that waits for itself would wait for ever.
    _entered: Option<RwLockReadGuard<'a, ()>>,
}

/// No turn of another thread is taken as long as this exists.
pub struct Alone<'a> {
    turns: &'a Turns,
    _alone: RwLockWriteGuard<'a, ()>,
}

/// Says that this thread evaluates a write while other processes are kept out.
pub struct KeptOut<'a>(&'a Turns);

impl Turns {
    /// Begins a turn. Waits while the process learns what others have written.
    pub fn enter(&self) -> Turn<'_> {
        let entered = if self.is_inside() { None } else { Some(self.lock.read()) };
        ENTERED.with_borrow_mut(|all| all.push(self.address()));
        Turn { turns: self, _entered: entered }
    }

    /// Whether this thread is within a turn.
    pub fn is_inside(&self) -> bool {
        ENTERED.with_borrow(|all| all.contains(&self.address()))
    }

    /// Waits until no turn is taken, and keeps others from beginning. To this thread it counts as a turn.
    pub fn exclude(&self) -> Alone<'_> {
        let alone = self.lock.write();
        ENTERED.with_borrow_mut(|all| all.push(self.address()));
        Alone { turns: self, _alone: alone }
    }

    fn leave(&self) {
        let address = self.address();
        ENTERED.with_borrow_mut(|all| {
            if let Some(at) = all.iter().rposition(|entered| *entered == address) {
                all.remove(at);
            }
        });
    }

    /// Counts a write that is going to be evaluated while other processes are kept out.
    pub fn await_write(&self) {
        self.awaited.fetch_add(1, Ordering::SeqCst);
    }

    /// How many such writes have not been committed yet.
    pub fn awaited(&self) -> usize {
        self.awaited.load(Ordering::SeqCst)
    }

    /// Says that this thread evaluates a write that was counted.
    pub fn keep_out(&self, commits: Commits) -> KeptOut<'_> {
        KEEPING.with_borrow_mut(|all| all.push((self.address(), commits)));
        KeptOut(self)
    }

    /// Says that this thread gives a batch to the engine: if it evaluates a write that was counted, and makes no other commit, the
    /// write counts no more.
    pub fn arrive(&self) {
        self.stop_keeping(|commits| commits == Commits::One);
    }

    fn stop_keeping(&self, is_over: impl Fn(Commits) -> bool) {
        let address = self.address();
        let found = KEEPING.with_borrow_mut(|all| {
            let at = all.iter().position(|(keeping, commits)| *keeping == address && is_over(*commits));
            at.map(|at| all.swap_remove(at))
        });
        if found.is_some() {
            self.awaited.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.leave();
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.turns.leave();
    }
}

impl Drop for KeptOut<'_> {
    fn drop(&mut self) {
        self.0.stop_keeping(|_| true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn exclude_waits_for_the_outermost_turn_of_each_thread() {
        let turns = Turns::default();
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            let outer = turns.enter();
            let turns = &turns;
            scope.spawn(move || {
                let _alone = turns.exclude();
                tell.send(()).unwrap();
            });
            let short = Duration::from_millis(20);
            assert!(told.recv_timeout(short).is_err());
            // Another turn of this thread does not wait for the thread that waits.
            drop(turns.enter());
            assert!(turns.is_inside());
            assert!(told.recv_timeout(short).is_err());
            drop(outer);
            told.recv().unwrap();
        });
        assert!(!turns.is_inside());
    }

    #[test]
    fn a_write_counts_until_its_commit_or_if_it_makes_several_until_its_end() {
        let turns = Turns::default();
        for (commits, after_first) in [(Commits::One, 0), (Commits::Several, 1)] {
            turns.await_write();
            let kept_out = turns.keep_out(commits);
            assert_eq!(turns.awaited(), 1);
            turns.arrive();
            turns.arrive();
            assert_eq!(turns.awaited(), after_first);
            drop(kept_out);
            assert_eq!(turns.awaited(), 0);
        }
    }

    #[test]
    fn turns_of_two_engines_do_not_stand_for_each_other() {
        let (one, other) = (Turns::default(), Turns::default());
        let _turn = one.enter();
        assert!(!other.is_inside());
        assert!(other.lock.try_write().is_some());
        let _second = other.enter();
        assert!(other.lock.try_write().is_none());
    }
}
