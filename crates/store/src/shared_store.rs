//! Writing a store that other processes write, too ([`diwan_kv::Peers`]).
//!
//! A write is evaluated in a turn of this process: [`Collection::begin_write`](crate::Collection) and the
//! [schema changes](crate::schema_change) begin one. Its commit fails with `Stale` if another process has written since the
//! turn began. Then the outermost evaluation ends its turn, has the other processes kept out, lets this one
//! [follow](crate::follow), and begins again. Where no other process writes, all of this costs nothing.

use crate::error::{Error, Result};
use crate::store::Shared;
use diwan_kv::{Batch, Commits, Engine, Turn};

/// Evaluates a write, and again each time it is refused because another process has written. The attempt holds no lock and
/// has changed nothing when it fails.
pub(crate) fn evaluate<T>(engine: &dyn Engine, attempt: impl FnMut() -> Result<T>) -> Result<T> {
    evaluate_commits(engine, Commits::One, attempt)
}

fn evaluate_commits<T>(
    engine: &dyn Engine,
    commits: Commits,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    let is_stale = |error: &Error| matches!(error, Error::Engine(diwan_kv::Error::Stale));
    match engine.peers() {
        Some(peers) => diwan_kv::evaluate(peers, commits, is_stale, attempt),
        None => attempt(),
    }
}

/// Begins a turn: until it is dropped, what this thread reads in memory stands as of one state of the store, or its commits fail.
pub(crate) fn turn(engine: &dyn Engine) -> Option<Turn<'_>> {
    engine.peers().map(|peers| peers.turns().enter())
}

impl Shared {
    /// See [`evaluate`].
    pub fn evaluate<T>(&self, attempt: impl FnMut() -> Result<T>) -> Result<T> {
        evaluate(self.engine.as_ref(), attempt)
    }

    /// The same for an attempt that makes several commits.
    pub fn evaluate_several<T>(&self, attempt: impl FnMut() -> Result<T>) -> Result<T> {
        evaluate_commits(self.engine.as_ref(), Commits::Several, attempt)
    }

    /// The same for an attempt that takes a batch with it.
    pub fn evaluate_batch<T>(&self, batch: Batch, attempt: impl Fn(Batch) -> Result<T>) -> Result<T> {
        if !self.has_peers() {
            return attempt(batch);
        }
        self.evaluate(|| attempt(batch.clone()))
    }

    /// Whether other processes may write the store.
    pub fn has_peers(&self) -> bool {
        self.engine.peers().is_some()
    }

    /// Whether this process does what one process does for all.
    pub fn leads(&self) -> bool {
        self.engine.peers().is_none_or(|peers| peers.leads())
    }

    /// The number that marks what only this process uses; `None` where there are no other processes.
    pub fn own_process(&self) -> Option<u32> {
        self.engine.peers().map(|peers| peers.own())
    }
}
