//! The contract: what every engine offers to the layers above.
//!
//! Invariants:
//! - Keys are ordered as byte strings; a scan yields each key of its range once, in order.
//! - A snapshot never changes, and never shows a part of a batch.
//! - A batch is applied in the same instant in which its conditions are checked: between the two, nothing writes the keys of
//!   the conditions, be it a commit with conditions, one without, or an ingestion. Commits that write each other's condition
//!   keys happen one after the other.
//! - When `commit` returns, later snapshots show the batch, and it survives a kill of the process.
//! - Commits become durable in the order of their ids.
//! - While the disk is almost full, batches that do not [take the reserve](Batch::take_reserve) and ingestions are refused.
//! - After a failed write or sync, nothing more is written until the engine is opened anew.

use crate::{Batch, Bytes, KeyRange, Peers, Result, Space};
use std::ops::{Bound, ControlFlow};

/// The number of a commit since the engine was opened; a greater number was completed later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitId(pub u64);

/// The end of a range at which a scan begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key to the greatest.
    Forward,
    /// From the greatest key to the smallest.
    Reverse,
}

/// Called once, with the outcome, when a commit has become durable or has failed to.
pub type DurableCallback = Box<dyn FnOnce(Result<()>) + Send>;

/// Called with a key and its value; breaks to end the visit.
pub type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Called with a key; breaks to end the visit.
pub type KeyVisitor<'a> = dyn FnMut(&[u8]) -> ControlFlow<()> + 'a;

/// Called with a space, a key in it and its value; breaks to end the visit.
pub type SpaceVisitor<'a> = dyn FnMut(Space, &[u8], &[u8]) -> ControlFlow<()> + 'a;

/// The pairs of a scan, in its order.
pub type Pairs = Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + Send>;

/// Pairs in ascending order of their keys, no key twice.
pub type SortedPairs<'a> = Box<dyn Iterator<Item = (&'a [u8], &'a [u8])> + 'a>;

/// An ordered key-value store of a few fixed spaces.
pub trait Engine: Send + Sync {
    /// The state of all spaces as of now.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// The same, for reading more than was asked for. None where snapshots cost next to nothing, or if this one would have to wait.
    fn spare_snapshot(&self) -> Option<Box<dyn Snapshot>> {
        None
    }

    /// The present value of `key`: that of a fresh snapshot, at a lower cost.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>>;

    /// Applies the batch if all its conditions hold, else changes nothing and returns
    /// [`Error::Conflict`](crate::Error::Conflict). The conditions are checked against all that is committed, and hold
    /// until the batch is applied.
    fn commit(&self, batch: Batch) -> Result<CommitId>;

    /// Begins a commit. Commits take effect in the order in which they are begun, and when one fails, but not by its own
    /// conditions, those that were begun after it and evaluated in the same [turn](Peers) fail with it. So a caller may begin
    /// the next commit before this one has taken effect.
    fn begin_commit(&self, batch: Batch) -> BegunCommit<'_> {
        BegunCommit::Ended(self.commit(batch))
    }

    /// An error if a write that grows the store would be refused now.
    fn writable(&self) -> Result<()>;

    /// Puts many pairs at once, at a much lower cost than by commits, and returns when they are durable.
    ///
    /// They take effect together, at one moment before this returns, as one commit would: they replace earlier
    /// values of their keys, and later commits replace them. Other commits wait at that moment, but not while the pairs are
    /// read from `pairs`.
    fn ingest(&self, space: Space, pairs: SortedPairs<'_>) -> Result<()>;

    /// Calls `callback` when the commit is durable or has failed to become so; perhaps at once, perhaps in
    /// another thread, which it must not block.
    fn on_durable(&self, commit: CommitId, callback: DurableCallback);

    /// Makes the commit durable in this thread, which saves a switch to another; `None` if another thread is syncing,
    /// and it is better to wait for that.
    fn sync_here(&self, commit: CommitId) -> Option<Result<()>>;

    /// Blocks until the commit is durable.
    fn wait_durable(&self, commit: CommitId) -> Result<()>;

    /// The last commit known to be durable.
    fn durable(&self) -> CommitId;

    /// Deletes every key of the range and returns how many there were. Not atomic: done in many batches of
    /// bounded size beside other traffic, and may be repeated after an interruption. Keys written to the range
    /// meanwhile may or may not survive.
    fn delete_range(&self, space: Space, range: KeyRange) -> Result<u64>;

    /// Flushes memory to tables and releases the journal, so that the next start has nothing to replay.
    fn settle(&self) -> Result<()>;

    /// Sizes and counts; cheap enough for a call every second.
    fn stats(&self) -> Stats;

    /// The other processes that write the store; `None` where only one does.
    fn peers(&self) -> Option<&dyn Peers> {
        None
    }

    /// Makes everything durable and releases the files. Later writes answer
    /// [`Error::Closed`](crate::Error::Closed).
    fn close(&self) -> Result<()>;
}

/// A commit that has been begun.
pub enum BegunCommit<'a> {
    /// It has ended already.
    Ended(Result<CommitId>),
    /// Waits for its end.
    UnderWay(Box<dyn FnOnce() -> Result<CommitId> + 'a>),
}

/// One unchanging state of all spaces.
pub trait Snapshot: Send + Sync {
    /// The value of `key`.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>>;

    /// The values of several keys, in their order.
    fn get_many(&self, space: Space, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        keys.iter().map(|key| self.get(space, key)).collect()
    }

    /// The pairs of a range, one after another. After an error the scan ends.
    fn scan(&self, space: Space, range: KeyRange, direction: Direction) -> Pairs;

    /// Calls `visitor` with each pair of a range, forward, until it breaks: the scan with the least overhead for a pair.
    fn visit(&self, space: Space, range: KeyRange, visitor: &mut Visitor<'_>) -> Result<()>;

    /// Calls `visitor` with each key of a range, forward, until it breaks. An engine that can leave out the values does so.
    fn visit_keys(&self, space: Space, range: KeyRange, visitor: &mut KeyVisitor<'_>) -> Result<()> {
        self.visit(space, range, &mut |key, _| visitor(key))
    }

    /// Calls `visitor` with every pair of every space, space by space, until it breaks: the scan for a backup.
    fn visit_all(&self, visitor: &mut SpaceVisitor<'_>) -> Result<()> {
        for space in Space::ALL {
            let mut stopped = false;
            self.visit(space, KeyRange::all(), &mut |key, value| {
                let flow = visitor(space, key, value);
                stopped = flow.is_break();
                flow
            })?;
            if stopped {
                break;
            }
        }
        Ok(())
    }

    /// Cuts a range into at most `parts` consecutive ranges of about the same size, by an estimate from the keys, so that
    /// they can be scanned in parallel.
    fn split(&self, space: Space, range: KeyRange, parts: usize) -> Result<Vec<KeyRange>> {
        crate::split::by_interpolation(|range, direction| self.scan(space, range, direction), range, parts)
    }
}

/// Sizes and counts of an engine. All are estimates as of the moment they were taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes allocated on disk, journals included.
    pub disk_bytes: u64,
    /// Bytes allocated on disk by journals.
    pub journal_bytes: u64,
    /// The number of journals; one after settling.
    pub journals: usize,
    /// Bytes of writes held in memory, not yet in tables.
    pub memtable_bytes: u64,
    /// Bytes of blocks in the cache.
    pub cache_bytes: u64,
    /// The most bytes of blocks the cache takes.
    pub cache_capacity: u64,
    /// The same, for each space, in the order of [`Space::ALL`].
    pub spaces: [SpaceStats; Space::ALL.len()],
}

/// Sizes of one space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// Bytes in tables on disk.
    pub disk_bytes: u64,
    /// Bytes of writes held in memory, not yet in tables.
    pub memory_bytes: u64,
    /// About how many keys there are; deleted and overwritten ones may count until compaction drops them.
    pub approximate_keys: u64,
}

/// Deletes a range with bounded memory: a run of keys is read from a fresh snapshot, deleted in one batch, and
/// the next run begins after it, so that no snapshot is held for long. For [`Engine::delete_range`].
pub fn delete_in_batches(engine: &dyn Engine, space: Space, range: KeyRange) -> Result<u64> {
    const RUN: usize = 1024;
    let mut rest = range;
    let mut deleted = 0;
    while !rest.is_empty() {
        let mut batch = Batch::with_capacity(RUN);
        batch.take_reserve();
        engine.snapshot().visit_keys(space, rest.clone(), &mut |key| {
            batch.delete(space, key);
            if batch.len() < RUN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let Some(last) = batch.writes().last() else { break };
        rest.start = Bound::Excluded(last.key.clone());
        let len = batch.len();
        engine.commit(batch)?;
        deleted += len as u64;
        if len < RUN {
            break;
        }
    }
    Ok(deleted)
}
