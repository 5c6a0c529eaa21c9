//! An engine over one snapshot of another engine: writes stay in memory and are never committed to the other engine.
//!
//! This is where the writes of a transaction lie until it is committed. A transaction reads them over its snapshot.

use crate::{
    Batch, Bytes, CommitId, Direction, DurableCallback, Engine, Error, KeyRange, Pairs, Result, Snapshot,
    SortedPairs, Space, Stats, Visitor,
};
use imbl::OrdMap;
use parking_lot::RwLock;
use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The written keys of a space. A deleted key has no value.
type Written = OrdMap<Bytes, Option<Bytes>>;

/// An engine whose writes lie over a snapshot.
pub struct OverlayEngine {
    base: Arc<dyn Snapshot>,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    spaces: [Written; Space::ALL.len()],
    bytes: u64,
    commits: u64,
}

impl OverlayEngine {
    /// An engine that holds what `base` shows.
    pub fn new(base: Arc<dyn Snapshot>) -> OverlayEngine {
        OverlayEngine { base, state: RwLock::default() }
    }

    /// What lies below the writes.
    pub fn base(&self) -> &Arc<dyn Snapshot> {
        &self.base
    }

    /// The writes of a space by their keys. A deleted key has no value.
    pub fn written(&self, space: Space) -> Vec<(Bytes, Option<Bytes>)> {
        let written = self.state.read().spaces[space.index()].clone();
        written.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// How many bytes the keys and values take that were written; each write of a key counts.
    pub fn written_bytes(&self) -> u64 {
        self.state.read().bytes
    }

    fn overlay(&self) -> Overlay {
        Overlay { base: self.base.clone(), spaces: self.state.read().spaces.clone() }
    }
}

impl State {
    fn value(&self, space: Space, key: &[u8], base: &dyn Snapshot) -> Result<Option<Bytes>> {
        match self.spaces[space.index()].get(key) {
            Some(written) => Ok(written.clone()),
            None => base.get(space, key),
        }
    }

    fn apply(&mut self, batch: Batch) -> CommitId {
        self.bytes += batch.bytes() as u64;
        for write in batch.into_writes() {
            self.spaces[write.space.index()].insert(write.key, write.value);
        }
        self.commits += 1;
        CommitId(self.commits)
    }
}

impl Engine for OverlayEngine {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(self.overlay())
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.state.read().value(space, key, self.base.as_ref())
    }

    fn commit(&self, batch: Batch) -> Result<CommitId> {
        batch.check_keys()?;
        let mut state = self.state.write();
        for (at, condition) in batch.conditions().iter().enumerate() {
            if state.value(condition.space, &condition.key, self.base.as_ref())? != condition.expected {
                return Err(Error::Conflict(at));
            }
        }
        Ok(state.apply(batch))
    }

    fn writable(&self) -> Result<()> {
        Ok(())
    }

    fn ingest(&self, space: Space, pairs: SortedPairs<'_>) -> Result<()> {
        let mut batch = Batch::new();
        pairs.for_each(|(key, value)| batch.put(space, key, value));
        self.commit(batch).map(drop)
    }

    fn on_durable(&self, _commit: CommitId, callback: DurableCallback) {
        callback(Ok(()));
    }

    fn sync_here(&self, _commit: CommitId) -> Option<Result<()>> {
        Some(Ok(()))
    }

    fn wait_durable(&self, _commit: CommitId) -> Result<()> {
        Ok(())
    }

    fn durable(&self) -> CommitId {
        CommitId(self.state.read().commits)
    }

    fn delete_range(&self, space: Space, range: KeyRange) -> Result<u64> {
        crate::engine::delete_in_batches(self, space, range)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats { memtable_bytes: self.written_bytes(), ..Stats::default() }
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// A snapshot with writes over it.
struct Overlay {
    base: Arc<dyn Snapshot>,
    spaces: [Written; Space::ALL.len()],
}

impl Overlay {
    fn written(&self, space: Space) -> &Written {
        &self.spaces[space.index()]
    }
}

impl Snapshot for Overlay {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        match self.written(space).get(key) {
            Some(written) => Ok(written.clone()),
            None => self.base.get(space, key),
        }
    }

    fn get_many(&self, space: Space, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        let mut values = self.base.get_many(space, keys)?;
        for (value, key) in values.iter_mut().zip(keys) {
            if let Some(written) = self.written(space).get(*key) {
                value.clone_from(written);
            }
        }
        Ok(values)
    }

    fn scan(&self, space: Space, range: KeyRange, direction: Direction) -> Pairs {
        let below = self.base.scan(space, range.clone(), direction);
        if range.is_empty() || self.written(space).is_empty() {
            return below;
        }
        let own = |(key, value): (&Bytes, &Option<Bytes>)| (key.clone(), value.clone());
        let within = self.written(space).range::<_, [u8]>(range.as_slices());
        let above: Vec<_> = match direction {
            Direction::Forward => within.map(own).collect(),
            Direction::Reverse => within.rev().map(own).collect(),
        };
        if above.is_empty() {
            return below;
        }
        Box::new(Merge { below: below.peekable(), above: above.into_iter().peekable(), direction })
    }

    fn visit(&self, space: Space, range: KeyRange, visitor: &mut Visitor<'_>) -> Result<()> {
        if range.is_empty() || self.written(space).is_empty() {
            return self.base.visit(space, range, visitor);
        }
        let mut above = self.written(space).range::<_, [u8]>(range.as_slices()).peekable();
        let mut stopped = false;
        self.base.visit(space, range.clone(), &mut |key, value| {
            let mut flow = ControlFlow::Continue(());
            let mut hidden = false;
            while let Some((written, replacement)) = above.next_if(|(written, _)| written.as_ref() <= key) {
                hidden |= written.as_ref() == key;
                if let Some(replacement) = replacement
                    && flow.is_continue()
                {
                    flow = visitor(written, replacement);
                }
                if flow.is_break() {
                    break;
                }
            }
            if flow.is_continue() && !hidden {
                flow = visitor(key, value);
            }
            stopped = flow.is_break();
            flow
        })?;
        if !stopped {
            for (key, value) in above {
                if let Some(value) = value
                    && visitor(key, value).is_break()
                {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The pairs of a snapshot with writes over them, in the order of a scan.
struct Merge {
    below: Peekable<Pairs>,
    above: Peekable<std::vec::IntoIter<(Bytes, Option<Bytes>)>>,
    direction: Direction,
}

impl Iterator for Merge {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let order = match (self.below.peek(), self.above.peek()) {
                (None, None) => return None,
                (Some(_), None) | (Some(Err(_)), _) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(Ok((below, _))), Some((above, _))) => match self.direction {
                    Direction::Forward => below.as_ref().cmp(above.as_ref()),
                    Direction::Reverse => above.as_ref().cmp(below.as_ref()),
                },
            };
            match order {
                Ordering::Less => return self.below.next(),
                Ordering::Equal => {
                    self.below.next();
                }
                Ordering::Greater => {
                    let (key, value) = self.above.next()?;
                    if let Some(value) = value {
                        return Some(Ok((key, value)));
                    }
                }
            }
        }
    }
}
