//! The engine in memory: for `--memory` and as the model that other engines are tested against.
//!
//! Each space is a persistent map, so a snapshot is a clone and costs nothing. The contract's rules on durability hold
//! trivially: a commit lives as long as the engine, and is durable at once.

use crate::{
    Batch, Bytes, CommitId, Direction, DurableCallback, Engine, Error, KeyRange, Pairs, Result, Snapshot,
    SortedPairs, Space, SpaceStats, Stats, Visitor,
};
use imbl::OrdMap;
use parking_lot::RwLock;
use std::ops::Bound;

type Map = OrdMap<Bytes, Bytes>;

/// An engine that keeps everything in memory, and loses it when it is dropped.
#[derive(Default)]
pub struct MemoryEngine {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    spaces: [Map; Space::ALL.len()],
    bytes: [u64; Space::ALL.len()],
    commits: u64,
    closed: bool,
}

impl MemoryEngine {
    /// An empty engine.
    pub fn new() -> Self {
        Self::default()
    }
}

impl State {
    fn apply(&mut self, batch: Batch) {
        for write in batch.into_writes() {
            let space = write.space.index();
            let key_len = write.key.len() as u64;
            let old = match write.value {
                Some(value) => {
                    self.bytes[space] += key_len + value.len() as u64;
                    self.spaces[space].insert(write.key, value)
                }
                None => self.spaces[space].remove(&*write.key),
            };
            if let Some(old) = old {
                self.bytes[space] -= key_len + old.len() as u64;
            }
        }
    }
}

impl Engine for MemoryEngine {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(MemorySnapshot { spaces: self.state.read().spaces.clone() })
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.state.read().spaces[space.index()].get(key).cloned())
    }

    fn commit(&self, batch: Batch) -> Result<CommitId> {
        batch.check_keys()?;
        let mut state = self.state.write();
        if state.closed {
            return Err(Error::Closed);
        }
        let holds = |c: &crate::Condition| state.spaces[c.space.index()].get(&*c.key) == c.expected.as_ref();
        if let Some(failed) = batch.conditions().iter().position(|c| !holds(c)) {
            return Err(Error::Conflict(failed));
        }
        state.apply(batch);
        state.commits += 1;
        Ok(CommitId(state.commits))
    }

    fn writable(&self) -> Result<()> {
        if self.state.read().closed { Err(Error::Closed) } else { Ok(()) }
    }

    fn ingest(&self, space: Space, pairs: SortedPairs<'_>) -> Result<()> {
        let mut batch = Batch::new();
        pairs.for_each(|(key, value)| batch.put(space, key, value));
        batch.check_keys()?;
        let mut state = self.state.write();
        if state.closed {
            return Err(Error::Closed);
        }
        state.apply(batch);
        Ok(())
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
        let state = self.state.read();
        let mut stats = Stats { memtable_bytes: state.bytes.iter().sum(), ..Stats::default() };
        for ((space, map), bytes) in stats.spaces.iter_mut().zip(&state.spaces).zip(state.bytes) {
            *space = SpaceStats { disk_bytes: 0, memory_bytes: bytes, approximate_keys: map.len() as u64 };
        }
        stats
    }

    fn close(&self) -> Result<()> {
        self.state.write().closed = true;
        Ok(())
    }
}

struct MemorySnapshot {
    spaces: [Map; Space::ALL.len()],
}

impl Snapshot for MemorySnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.spaces[space.index()].get(key).cloned())
    }

    fn scan(&self, space: Space, range: KeyRange, direction: Direction) -> Pairs {
        let rest = if range.is_empty() { None } else { Some(range) };
        let map = self.spaces[space.index()].clone();
        Box::new(MemoryScan { map, rest, direction, ahead: Vec::new().into_iter() })
    }

    fn visit(&self, space: Space, range: KeyRange, visitor: &mut Visitor<'_>) -> Result<()> {
        if !range.is_empty() {
            let pairs = self.spaces[space.index()].range::<_, [u8]>(range.as_slices());
            for (key, value) in pairs {
                if visitor(key, value).is_break() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// A scan that owns its map: it reads some pairs ahead, and finds its position again by key.
struct MemoryScan {
    map: Map,
    rest: Option<KeyRange>,
    direction: Direction,
    ahead: std::vec::IntoIter<(Bytes, Bytes)>,
}

impl MemoryScan {
    const RUN: usize = 64;

    fn fetch(&mut self) {
        let Some(range) = &mut self.rest else { return };
        let own = |(k, v): (&Bytes, &Bytes)| (k.clone(), v.clone());
        let pairs = self.map.range::<_, [u8]>(range.as_slices());
        let run: Vec<_> = match self.direction {
            Direction::Forward => pairs.take(Self::RUN).map(own).collect(),
            Direction::Reverse => pairs.rev().take(Self::RUN).map(own).collect(),
        };
        match run.last() {
            Some((key, _)) if run.len() == Self::RUN => {
                match self.direction {
                    Direction::Forward => range.start = Bound::Excluded(key.clone()),
                    Direction::Reverse => range.end = Bound::Excluded(key.clone()),
                }
                if range.is_empty() {
                    self.rest = None;
                }
            }
            _ => self.rest = None,
        }
        self.ahead = run.into_iter();
    }
}

impl Iterator for MemoryScan {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ahead.len() == 0 {
            self.fetch();
        }
        self.ahead.next().map(Ok)
    }
}
