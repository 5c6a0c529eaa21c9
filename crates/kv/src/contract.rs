//! An engine around another that checks the contract on both sides, for debug builds and tests.
//!
//! A violation is a bug in the engine or in its caller, so it panics with a message. The rules:
//! - a batch writes each key at most once;
//! - ingested pairs are in order, each key once;
//! - a conflict names a condition of the batch;
//! - scans and visits yield keys of their range, in order, each once;
//! - a snapshot returns the same value for a key each time (checked for a sample of keys);
//! - the last durable commit never goes back, and never exceeds the last commit.

use crate::{
    Batch, BegunCommit, Bytes, CommitId, Direction, DurableCallback, Engine, Error, KeyRange, Pairs, Peers,
    Result, Snapshot, SortedPairs, Space, Stats, Visitor,
};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// An engine that checks that another engine and its callers keep the contract.
pub struct ContractEngine<E> {
    inner: E,
    durable: AtomicU64,
}

impl<E: Engine> ContractEngine<E> {
    /// Checks `inner`.
    pub fn new(inner: E) -> Self {
        Self { inner, durable: AtomicU64::new(0) }
    }
}

impl<E: Engine> Engine for ContractEngine<E> {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(ContractSnapshot { inner: self.inner.snapshot(), sample: Mutex::default() })
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.inner.get(space, key)
    }

    fn begin_commit(&self, batch: Batch) -> BegunCommit<'_> {
        check_writes(&batch);
        self.inner.begin_commit(batch)
    }

    fn commit(&self, batch: Batch) -> Result<CommitId> {
        check_writes(&batch);
        let conditions = batch.conditions().len();
        let outcome = self.inner.commit(batch);
        if let Err(Error::Conflict(i)) = &outcome {
            assert!(*i < conditions, "conflict with condition {i} of {conditions}");
        }
        outcome
    }

    fn writable(&self) -> Result<()> {
        self.inner.writable()
    }

    fn ingest(&self, space: Space, pairs: SortedPairs<'_>) -> Result<()> {
        let mut last: Option<&[u8]> = None;
        let checked = pairs.inspect(move |(key, _)| {
            let before = last.replace(key);
            assert!(before < Some(key), "{key:?} is ingested into {space} after {before:?}");
        });
        self.inner.ingest(space, Box::new(checked))
    }

    fn on_durable(&self, commit: CommitId, callback: DurableCallback) {
        self.inner.on_durable(commit, callback);
    }

    fn sync_here(&self, commit: CommitId) -> Option<Result<()>> {
        let outcome = self.inner.sync_here(commit);
        if let Some(Ok(())) = outcome {
            assert!(self.durable() >= commit, "{commit:?} was synced and is not durable");
        }
        outcome
    }

    fn wait_durable(&self, commit: CommitId) -> Result<()> {
        self.inner.wait_durable(commit)?;
        assert!(self.durable() >= commit, "{commit:?} was waited for and is not durable");
        Ok(())
    }

    fn durable(&self) -> CommitId {
        let before = self.durable.load(Ordering::SeqCst);
        let now = self.inner.durable();
        assert!(now.0 >= before, "durable shrank from {before} to {now:?}");
        self.durable.fetch_max(now.0, Ordering::SeqCst);
        now
    }

    fn delete_range(&self, space: Space, range: KeyRange) -> Result<u64> {
        self.inner.delete_range(space, range)
    }

    fn settle(&self) -> Result<()> {
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

fn check_writes(batch: &Batch) {
    let mut keys = HashSet::with_capacity(batch.len());
    for write in batch.writes() {
        let new = keys.insert((write.space, &write.key));
        assert!(new, "the batch writes a key of {} twice: {:?}", write.space, write.key);
    }
}

/// A value that a snapshot has returned: the space, the key, and the value.
type Shown = (Space, Vec<u8>, Option<Bytes>);

struct ContractSnapshot {
    inner: Box<dyn Snapshot>,
    sample: Mutex<(u64, Vec<Shown>)>,
}

impl ContractSnapshot {
    const SAMPLE: usize = 4;
    const EVERY: u64 = 16;

    /// Remembers the first gets, and repeats one of them from time to time.
    fn check_stability(&self, space: Space, key: &[u8], value: &Option<Bytes>) -> Result<()> {
        let again = {
            let (count, shown) = &mut *self.sample.lock();
            *count += 1;
            if shown.len() < Self::SAMPLE {
                shown.push((space, key.to_vec(), value.clone()));
            }
            let due = count.is_multiple_of(Self::EVERY);
            due.then(|| shown[(*count / Self::EVERY) as usize % shown.len()].clone())
        };
        if let Some((space, key, before)) = again {
            let now = self.inner.get(space, &key)?;
            assert!(now == before, "a snapshot changed: {space} {key:?} was {before:?} and is {now:?}");
        }
        Ok(())
    }
}

impl Snapshot for ContractSnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.inner.get(space, key)?;
        self.check_stability(space, key, &value)?;
        Ok(value)
    }

    fn get_many(&self, space: Space, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        let values = self.inner.get_many(space, keys)?;
        assert_eq!(values.len(), keys.len(), "get_many answers each key");
        Ok(values)
    }

    fn scan(&self, space: Space, range: KeyRange, direction: Direction) -> Pairs {
        let mut order = Order { range: range.clone(), direction, last: None };
        let pairs = self.inner.scan(space, range, direction);
        Box::new(pairs.inspect(move |pair| {
            if let Ok((key, _)) = pair {
                order.check(key);
            }
        }))
    }

    fn visit(&self, space: Space, range: KeyRange, visitor: &mut Visitor<'_>) -> Result<()> {
        let mut order = Order { range: range.clone(), direction: Direction::Forward, last: None };
        self.inner.visit(space, range, &mut |key, value| {
            order.check(key);
            visitor(key, value)
        })
    }
}

struct Order {
    range: KeyRange,
    direction: Direction,
    last: Option<Vec<u8>>,
}

impl Order {
    fn check(&mut self, key: &[u8]) {
        assert!(self.range.contains(key), "a scan of {:?} yields {key:?}", self.range);
        if let Some(last) = &self.last {
            let in_order = match self.direction {
                Direction::Forward => **last < *key,
                Direction::Reverse => **last > *key,
            };
            assert!(in_order, "a {:?} scan yields {key:?} after {last:?}", self.direction);
        }
        self.last = Some(key.to_vec());
    }
}
