//! Records and entries of indexes in memory: runs of neighbouring pairs kept packed, so that scans and reads of what is hot
//! never enter the engine.
//!
//! [`CachedEngine`] stands around an engine and caches the spaces [`CACHED`]. What it keeps are [pages](page): all pairs of
//! an interval of keys as they lay in one snapshot. Pages come from scans, which have the pairs in their hands anyway, and
//! from some of the short reads that find none, which read on for that, as far as pages have proved [worth it](credit); and what
//! was written last is [read in](warm) as soon as there is leisure, where there is room.
//! Commits only note in pages which keys they write. A reader takes a page's pairs and asks the engine about the noted keys
//! alone. When there are a few of them, the reader leaves a fresh page behind; a page that is written much and not read is
//! dropped.
//!
//! Why a snapshot sees exactly its own state:
//! - A page is used by a snapshot only if the page was there before the snapshot was taken. So the snapshot shows all that the
//!   page's own one showed, and of what came since, the keys are noted:
//! - a commit enters its keys into the [log](recent), then notes them in the pages, and only then is applied: what a snapshot
//!   shows was noted before the snapshot was taken;
//! - a page that is put in takes over from the log the keys of all commits that had not ended when its snapshot was taken. The
//!   log forgets old ones; a page that would need them is not put in.
//!
//! The value of a noted key comes from the engine's snapshot, so it does not matter which of the commits it shows.

mod credit;
mod fill;
mod heads;
mod page;
mod pages;
mod reader;
mod recent;
mod warm;

#[cfg(test)]
mod tests;

use crate::ticker::Ticker;
use crate::{
    Batch, Bytes, CommitId, DurableCallback, Engine, KeyRange, Result, Snapshot, SortedPairs, Space, Stats,
};
use pages::Pages;
use parking_lot::Mutex;
use reader::CachedSnapshot;
use std::ops::Bound;
use std::sync::Arc;
use warm::Warming;

/// The spaces that are cached: what queries read.
const CACHED: [Space; 2] = [Space::Records, Space::Indexes];

fn is_cached(space: Space) -> bool {
    CACHED.contains(&space)
}

/// About how many bytes a page holds: some hundred small documents, so that finding it costs nothing beside reading it.
const PAGE_BYTES: usize = 64 << 10;

/// An engine with a cache of pairs around another.
pub struct CachedEngine<E> {
    inner: Arc<E>,
    pages: Arc<Pages>,
    warmer: Mutex<Option<Ticker>>,
}

impl<E: Engine + 'static> CachedEngine<E> {
    /// From now on, what was written is [read in](warm) when nothing has been written for a while, as long as there is room.
    pub fn warm_in_background(&self) -> Result<()> {
        *self.warmer.lock() = Some(Warming::new(&self.inner, &self.pages).start()?);
        Ok(())
    }
}

impl<E: Engine> CachedEngine<E> {
    /// Caches at most about `budget` bytes of `inner`'s pairs.
    pub fn new(inner: E, budget: u64) -> Self {
        Self::with_pages_of(inner, budget, PAGE_BYTES)
    }

    fn with_pages_of(inner: E, budget: u64, page_bytes: usize) -> Self {
        let budget = usize::try_from(budget).unwrap_or(usize::MAX);
        let pages = Arc::new(Pages::new(budget, page_bytes));
        Self { inner: Arc::new(inner), pages, warmer: Mutex::default() }
    }
}

impl<E: Engine> Engine for CachedEngine<E> {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        // Before the engine's own snapshot: what is true of this moment is true of that one.
        let moment = self.pages.moment();
        Box::new(CachedSnapshot::new(self.inner.snapshot(), self.pages.clone(), moment))
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        if is_cached(space)
            && let Some(known) = self.pages.get(space, key, self.pages.moment())
        {
            return Ok(known);
        }
        self.inner.get(space, key)
    }

    fn commit(&self, batch: Batch) -> Result<CommitId> {
        let under_way = self.pages.begin(&batch);
        let outcome = self.inner.commit(batch);
        drop(under_way);
        outcome
    }

    fn writable(&self) -> Result<()> {
        self.inner.writable()
    }

    fn ingest(&self, space: Space, pairs: SortedPairs<'_>) -> Result<()> {
        // Where they end is known when they have been written.
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

    fn close(&self) -> Result<()> {
        // It would hold on to the files.
        drop(self.warmer.lock().take());
        self.inner.close()
    }
}
