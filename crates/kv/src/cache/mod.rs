//! A cache of records and index entries: packed runs of adjacent pairs, so that scans and reads of hot data do not enter the
//! engine.
//!
//! [`CachedEngine`] wraps an engine and caches records and indexes. It keeps [pages](page): a page has all pairs of an
//! interval of keys, as one snapshot showed them. Scans build pages of the pairs that they read anyway. Some of the short
//! reads that miss the cache read further to build a page. [Warming](warm) reads recent writes into the cache when the engine
//! is idle and there is free room.
//! A commit does not change pages; it marks the keys that it writes in them. A reader takes a page's pairs and asks the
//! engine only for the marked keys. A reader that meets several marks replaces the page. A page with very many marks is
//! removed.
//!
//! Why a snapshot sees exactly its own state:
//! - A snapshot uses a page only if the page was inserted before the snapshot was taken. So the snapshot includes everything
//!   in the page. The keys of later commits are marked, as the next two points ensure.
//! - A commit enters its keys into the [log](recent), then marks them in the pages, and only then is applied. So the keys of
//!   every commit in a snapshot were marked before the snapshot was taken.
//! - A page that is inserted gets marks, from the log, for the keys of all commits that had not ended when its snapshot was
//!   taken. The log forgets old commits; a page that would need them is not inserted.
//!
//! The value of a marked key comes from the engine's snapshot, so it does not matter which of the commits it includes.
//!
//! What other processes write is marked in the same way, before a snapshot shows it ([`Peers::mark`]).
//!
//! Each file uses only files before it in this order: `interval`, `heads`, `page`, `recent`, `pages`; `fill` builds pages of
//! pairs; `visit`, `scan` and `snapshot` read; `warm` fills in the background.

mod fill;
mod heads;
mod interval;
mod page;
mod pages;
mod recent;
mod scan;
mod snapshot;
mod visit;
mod warm;

#[cfg(test)]
mod tests;

use crate::ticker::Ticker;
use crate::{
    Batch, BegunCommit, Bytes, CommitId, DurableCallback, Engine, KeyRange, Peers, Result, Snapshot,
    SortedPairs, Space, Stats,
};
use fill::Source;
use pages::{Found, Pages, is_cached};
use parking_lot::Mutex;
use snapshot::CachedSnapshot;
use std::ops::Bound;
use std::sync::Arc;
use warm::Warming;

/// About how many bytes a page holds: a few hundred small documents, so that finding the page costs little compared with
/// reading it.
const PAGE_BYTES: usize = 64 << 10;

/// An engine that adds a cache of pairs to another engine.
pub struct CachedEngine<E> {
    inner: Arc<E>,
    pages: Arc<Pages>,
    warmer: Mutex<Option<Ticker>>,
}

impl<E: Engine + 'static> CachedEngine<E> {
    /// Starts a thread that [warms](warm) the cache when nothing has been written for a while and there is free room.
    pub fn warm_in_background(&self) -> Result<()> {
        *self.warmer.lock() = Some(Warming::new(&self.inner, &self.pages).start()?);
        Ok(())
    }
}

impl<E: Engine> CachedEngine<E> {
    /// Adds a cache of at most about `budget` bytes to `inner`.
    pub fn new(inner: E, budget: u64) -> Self {
        Self::with_pages_of(inner, budget, PAGE_BYTES)
    }

    /// Inserts a page that begins at a key which no page covers, for some of the reads that miss the cache, as a snapshot does.
    /// Only engines where each miss costs a message have a snapshot to spare for it. Returns whether it has read on.
    fn fill_from(&self, space: Space, key: &[u8]) -> bool {
        let moment = self.pages.moment();
        if self.inner.peers().is_some()
            && let Found::Gap(end) = self.pages.find(space, key, moment)
            && let Some(bytes) = self.pages.missed()
            && let Some(inner) = self.inner.spare_snapshot()
        {
            let source = Source { inner, pages: self.pages.clone(), moment };
            fill::from(&source, space, key, end, bytes);
            return true;
        }
        false
    }

    fn with_pages_of(inner: E, budget: u64, page_bytes: usize) -> Self {
        let budget = usize::try_from(budget).unwrap_or(usize::MAX);
        let pages = Arc::new(Pages::new(budget, page_bytes));
        if let Some(peers) = inner.peers() {
            let pages = pages.clone();
            peers.mark(Box::new(move |changes| pages.mark_foreign(changes)));
        }
        Self { inner: Arc::new(inner), pages, warmer: Mutex::default() }
    }
}

impl<E: Engine> Engine for CachedEngine<E> {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        // Read before the engine's snapshot is taken, so that the snapshot includes everything up to this moment.
        let moment = self.pages.moment();
        Box::new(CachedSnapshot::new(self.inner.snapshot(), self.pages.clone(), moment))
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        if is_cached(space) {
            let known = || self.pages.get(space, key, self.pages.moment());
            if let Some(known) = known() {
                return Ok(known);
            }
            if self.fill_from(space, key)
                && let Some(known) = known()
            {
                return Ok(known);
            }
        }
        self.inner.get(space, key)
    }

    fn commit(&self, batch: Batch) -> Result<CommitId> {
        let under_way = self.pages.begin(&batch);
        let outcome = self.inner.commit(batch);
        drop(under_way);
        outcome
    }

    fn begin_commit(&self, batch: Batch) -> BegunCommit<'_> {
        let under_way = self.pages.begin(&batch);
        match self.inner.begin_commit(batch) {
            BegunCommit::UnderWay(wait) => BegunCommit::UnderWay(Box::new(move || {
                let outcome = wait();
                drop(under_way);
                outcome
            })),
            ended => ended,
        }
    }

    fn writable(&self) -> Result<()> {
        self.inner.writable()
    }

    fn ingest(&self, space: Space, pairs: SortedPairs<'_>) -> Result<()> {
        // The range has no end, because the last key is known only when all pairs have been written.
        let mut pairs = pairs.peekable();
        let range = match pairs.peek() {
            Some((first, _)) => KeyRange::new(Bound::Included((*first).into()), Bound::Unbounded),
            None => return self.inner.ingest(space, Box::new(pairs)),
        };
        let under_way = self.pages.begin_range(space, &range);
        let outcome = self.inner.ingest(space, Box::new(pairs));
        drop(under_way);
        outcome
    }

    fn on_durable(&self, commit: CommitId, callback: DurableCallback) {
        self.inner.on_durable(commit, callback);
    }

    fn sync_here(&self, commit: CommitId) -> Option<Result<()>> {
        self.inner.sync_here(commit)
    }

    fn wait_durable(&self, commit: CommitId) -> Result<()> {
        self.inner.wait_durable(commit)
    }

    fn durable(&self) -> CommitId {
        self.inner.durable()
    }

    fn delete_range(&self, space: Space, range: KeyRange) -> Result<u64> {
        let under_way = self.pages.begin_range(space, &range);
        let outcome = self.inner.delete_range(space, range);
        drop(under_way);
        outcome
    }

    fn settle(&self) -> Result<()> {
        self.inner.settle()
    }

    fn stats(&self) -> Stats {
        let mut stats = self.inner.stats();
        stats.cache_bytes += self.pages.bytes() as u64;
        stats.cache_capacity += self.pages.budget() as u64;
        stats
    }

    fn peers(&self) -> Option<&dyn Peers> {
        self.inner.peers()
    }

    fn close(&self) -> Result<()> {
        // The thread would keep the files open.
        drop(self.warmer.lock().take());
        self.inner.close()
    }
}
