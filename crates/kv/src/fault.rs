//! An engine around another that fails on demand, for tests of the layers above.
//!
//! It fails as the engine on disk does: a failed commit writes nothing, a failed sync leaves it unknown what is durable,
//! and after either the engine refuses writes; a failed read affects that read alone.

use crate::{
    Batch, Bytes, CommitId, Direction, DurableCallback, Engine, Error, KeyRange, Pairs, Peers, Result,
    Snapshot, SortedPairs, Space, Stats, Visitor,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The kind of operation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Writing a batch, or ingesting.
    Commit,
    /// Making a commit durable.
    Sync,
    /// Reading one value, or one pair of a scan.
    Read,
}

/// An engine that passes everything on to another, except operations that it was told to fail.
pub struct FaultEngine<E> {
    inner: E,
    faults: Arc<Faults>,
}

/// For each fault, the number of operations that will still succeed, plus one; 0: all succeed.
#[derive(Default)]
struct Faults {
    countdown: [AtomicU64; 3],
    poisoned: AtomicBool,
    full: AtomicBool,
}

impl Faults {
    fn trips(&self, fault: Fault) -> bool {
        let countdown = &self.countdown[fault as usize];
        let count = countdown.try_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        count == Ok(1)
    }

    fn poisoned(&self) -> Result<()> {
        match self.poisoned.load(Ordering::SeqCst) {
            true => Err(Error::Poisoned("an injected failure".into())),
            false => Ok(()),
        }
    }

    fn room(&self) -> Result<()> {
        match self.full.load(Ordering::SeqCst) {
            true => Err(Error::OutOfSpace { available: 1, required: 2 }),
            false => Ok(()),
        }
    }

    fn writing(&self, fault: Fault) -> Result<()> {
        self.poisoned()?;
        if self.trips(fault) {
            self.poisoned.store(true, Ordering::SeqCst);
            return Err(injected());
        }
        Ok(())
    }

    fn reading(&self) -> Result<()> {
        if self.trips(Fault::Read) { Err(injected()) } else { Ok(()) }
    }
}

fn injected() -> Error {
    Error::io("an injected failure", std::io::Error::other("as ordered"))
}

impl<E: Engine> FaultEngine<E> {
    /// Passes everything on to `inner`.
    pub fn new(inner: E) -> Self {
        Self { inner, faults: Arc::default() }
    }

    /// Lets the `nth` operation of that kind fail; 1 is the next one.
    pub fn fail(&self, fault: Fault, nth: u64) {
        self.faults.countdown[fault as usize].store(nth, Ordering::SeqCst);
    }

    /// Refuses writes that grow the store, as on a disk that is almost full, or accepts them again.
    pub fn set_full(&self, full: bool) {
        self.faults.full.store(full, Ordering::SeqCst);
    }

    /// Refuses all further writes, as after a failed one.
    pub fn poison(&self) {
        self.faults.poisoned.store(true, Ordering::SeqCst);
    }
}

impl<E: Engine> Engine for FaultEngine<E> {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(FaultSnapshot { inner: self.inner.snapshot(), faults: Arc::clone(&self.faults) })
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.faults.reading()?;
        self.inner.get(space, key)
    }

    fn commit(&self, batch: Batch) -> Result<CommitId> {
        if !batch.takes_reserve() {
            self.faults.room()?;
        }
        self.faults.writing(Fault::Commit)?;
        self.inner.commit(batch)
    }

    fn writable(&self) -> Result<()> {
        self.faults.poisoned()?;
        self.faults.room()?;
        self.inner.writable()
    }

    fn ingest(&self, space: Space, pairs: SortedPairs<'_>) -> Result<()> {
        self.faults.room()?;
        self.faults.writing(Fault::Commit)?;
        self.inner.ingest(space, pairs)
    }

    fn on_durable(&self, commit: CommitId, callback: DurableCallback) {
        match self.faults.writing(Fault::Sync) {
            Ok(()) => self.inner.on_durable(commit, callback),
            Err(error) => callback(Err(error)),
        }
    }

    fn sync_here(&self, commit: CommitId) -> Option<Result<()>> {
        match self.faults.writing(Fault::Sync) {
            Ok(()) => self.inner.sync_here(commit),
            Err(error) => Some(Err(error)),
        }
    }

    fn wait_durable(&self, commit: CommitId) -> Result<()> {
        self.faults.writing(Fault::Sync)?;
        self.inner.wait_durable(commit)
    }

    fn durable(&self) -> CommitId {
        self.inner.durable()
    }

    fn delete_range(&self, space: Space, range: KeyRange) -> Result<u64> {
        crate::engine::delete_in_batches(self, space, range)
    }

    fn settle(&self) -> Result<()> {
        self.faults.poisoned()?;
        self.inner.settle()
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }

    fn peers(&self) -> Option<&dyn Peers> {
        self.inner.peers()
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

struct FaultSnapshot {
    inner: Box<dyn Snapshot>,
    faults: Arc<Faults>,
}

impl Snapshot for FaultSnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.faults.reading()?;
        self.inner.get(space, key)
    }

    fn scan(&self, space: Space, range: KeyRange, direction: Direction) -> Pairs {
        let faults = Arc::clone(&self.faults);
        let mut failed = false;
        let pairs = self.inner.scan(space, range, direction);
        Box::new(pairs.map_while(move |pair| {
            if failed {
                return None;
            }
            let pair = faults.reading().and(pair);
            failed = pair.is_err();
            Some(pair)
        }))
    }

    fn visit(&self, space: Space, range: KeyRange, visitor: &mut Visitor<'_>) -> Result<()> {
        let mut outcome = Ok(());
        self.inner.visit(space, range, &mut |key, value| {
            outcome = self.faults.reading();
            if outcome.is_err() { ControlFlow::Break(()) } else { visitor(key, value) }
        })?;
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryEngine;

    fn put(key: u8) -> Batch {
        let mut batch = Batch::new();
        batch.put(Space::Records, [key], *b"v");
        batch
    }

    #[test]
    fn a_commit_told_to_fail_fails_and_poisons() {
        let engine = FaultEngine::new(MemoryEngine::new());
        engine.fail(Fault::Commit, 2);
        engine.commit(put(1)).unwrap();
        assert!(matches!(engine.commit(put(2)), Err(Error::Io { .. })));
        assert!(matches!(engine.commit(put(3)), Err(Error::Poisoned(_))));
        assert_eq!(engine.snapshot().scan(Space::Records, KeyRange::all(), Direction::Forward).count(), 1);
    }

    #[test]
    fn a_full_engine_accepts_only_deletions() {
        let engine = FaultEngine::new(MemoryEngine::new());
        engine.commit(put(1)).unwrap();
        engine.set_full(true);
        assert!(matches!(engine.commit(put(2)), Err(Error::OutOfSpace { .. })));
        let pairs: [(&[u8], &[u8]); 1] = [(b"k", b"v")];
        let ingested = engine.ingest(Space::Records, Box::new(pairs.into_iter()));
        assert!(matches!(ingested, Err(Error::OutOfSpace { .. })));
        assert!(engine.writable().unwrap_err().is_out_of_space());
        engine.commit(Batch::new()).unwrap();
        let mut noted = put(3);
        noted.take_reserve();
        engine.commit(noted).unwrap();
        assert_eq!(engine.delete_range(Space::Records, KeyRange::all()).unwrap(), 2);
        engine.set_full(false);
        engine.writable().unwrap();
        engine.commit(put(2)).unwrap();
    }

    #[test]
    fn a_failed_sync_refuses_further_writes() {
        let engine = FaultEngine::new(MemoryEngine::new());
        engine.fail(Fault::Sync, 1);
        let id = engine.commit(put(1)).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        engine.on_durable(id, Box::new(move |outcome| sender.send(outcome).unwrap()));
        assert!(matches!(receiver.recv().unwrap(), Err(Error::Io { .. })));
        assert!(matches!(engine.commit(put(2)), Err(Error::Poisoned(_))));
        assert!(engine.wait_durable(id).is_err());
    }

    #[test]
    fn a_read_told_to_fail_fails_alone() {
        let engine = FaultEngine::new(MemoryEngine::new());
        for key in 0..5 {
            engine.commit(put(key)).unwrap();
        }
        let view = engine.snapshot();
        engine.fail(Fault::Read, 3);
        let scan: Vec<_> = view.scan(Space::Records, KeyRange::all(), Direction::Forward).collect();
        assert_eq!(scan.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
        engine.fail(Fault::Read, 2);
        let mut seen = 0;
        let visit = view.visit(Space::Records, KeyRange::all(), &mut |_, _| {
            seen += 1;
            ControlFlow::Continue(())
        });
        assert!(visit.is_err() && seen == 1);
        assert!(engine.get(Space::Records, &[1]).unwrap().is_some());
    }
}
