//! All pages, by their keys: finding pages, marking writes in them, inserting and evicting pages.

use super::page::{Draft, Packer, Page};
use super::recent::{Recent, Written};
use crate::{Batch, Bytes, Changes, KeyRange, Space};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The spaces that are cached: those that queries read.
const CACHED: [Space; 2] = [Space::Records, Space::Indexes];

/// Whether a space is cached.
pub(super) fn is_cached(space: Space) -> bool {
    CACHED.contains(&space)
}

/// A page with more marks than this is removed: it is written more than it is read.
const MOST_MARKS: usize = 64;
/// A reader that meets so many marks replaces the page: a fresh page costs about as much as reading the marked keys.
pub(super) const STALE_MARKS: usize = 3;

/// One of so many short reads that miss the cache inserts a page. It has to read further to fill the page, which costs as
/// much as several reads, and pays only if nearby keys are read soon.
const MISSES_FOR_A_PAGE: u64 = 16;
/// The page of a short read is this fraction of a scan's page, because its pairs are read only for the page.
const SHORT_READ_PART: usize = 8;

/// A point in the cache's time: see [`Pages::moment`].
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// How many times pages had been inserted.
    time: u64,
    /// All commits with lower numbers had ended.
    settled: u64,
}

/// What the cache has at a key.
pub(super) enum Found {
    /// A page that covers it.
    Page(Arc<Page>),
    /// No page up to a key, or to the end.
    Gap(Option<Bytes>),
    /// A page that was inserted too late for the reader. It extends to a key, or to the end.
    TooNew(Option<Bytes>),
}

#[derive(Default)]
struct Map {
    /// The pages of each space, by their first keys.
    pages: [BTreeMap<Bytes, Arc<Page>>; Space::ALL.len()],
    bytes: usize,
    /// The last page that eviction considered. The next search starts after it.
    hand: (usize, Bytes),
}

/// All pages.
pub(super) struct Pages {
    // Locked before `recent` where both are needed.
    map: RwLock<Map>,
    recent: Mutex<Recent>,
    /// How many times pages have been inserted.
    time: AtomicU64,
    /// All commits with lower numbers in `recent` have ended.
    settled: AtomicU64,
    budget: usize,
    page_bytes: usize,
    /// How many short reads have missed the cache.
    misses: AtomicU64,
}

impl Pages {
    pub fn new(budget: usize, page_bytes: usize) -> Pages {
        Pages {
            map: RwLock::default(),
            recent: Mutex::default(),
            time: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            budget,
            page_bytes,
            misses: AtomicU64::new(0),
        }
    }

    /// About how many bytes a page holds.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// How many bytes the pages take.
    pub fn bytes(&self) -> usize {
        self.map.read().bytes
    }

    /// The most bytes that the pages may take.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// The present moment.
    pub fn moment(&self) -> Moment {
        Moment { time: self.time.load(Ordering::SeqCst), settled: self.settled.load(Ordering::SeqCst) }
    }

    /// The number below which all commits and changes of ranges have ended. Every write raises it.
    pub fn commits(&self) -> u64 {
        self.settled.load(Ordering::SeqCst)
    }

    /// Adds the intervals that were written since the last call to `left`, which is the rest of earlier calls.
    pub fn take_written(&self, left: &mut Written) {
        let written = self.recent.lock().take_written();
        for (left, new) in left.iter_mut().zip(written) {
            *left = match (left.take(), new) {
                (Some(left), Some(new)) => Some(left.around(&new)),
                (left, new) => left.or(new),
            };
        }
    }

    /// The first key from this one on that no page covers, and the start of the next page; `None` if pages cover all.
    pub fn gap_from(&self, space: Space, key: &Bytes) -> Option<(Bytes, Option<Bytes>)> {
        let map = self.map.read();
        let mut from = key.clone();
        while let Some(page) = map.covering(space, &from) {
            from = page.high.clone()?;
        }
        let end = map.after(space, &from).cloned();
        Some((from, end))
    }

    /// Inserts a page if no other page has to be evicted for it. Returns whether it was inserted.
    pub fn fill(&self, space: Space, draft: Draft, moment: Moment) -> bool {
        let fits = self.map.read().bytes + 2 * self.page_bytes <= self.budget;
        fits && self.put(space, vec![draft], None, moment)
    }

    /// A packer for pages from a key on; `None` if there is no room for any.
    pub fn packer(&self, low: Bytes) -> Option<Packer> {
        (self.budget >= self.page_bytes).then(|| Packer::new(low, self.page_bytes))
    }

    /// Whether a page of so many bytes is worth inserting on its own.
    pub fn worthwhile(&self, bytes: usize) -> bool {
        bytes >= self.page_bytes / 16
    }

    /// Marks what another process has written.
    pub fn mark_foreign(&self, changes: &Changes) {
        match changes {
            Changes::Keys { keys, .. } => {
                let mut batch = Batch::with_capacity(keys.len());
                keys.iter().for_each(|(space, key)| batch.delete(*space, key.clone()));
                drop(self.begin(&batch));
            }
            Changes::Ranges(ranges) => ranges
                .iter()
                .filter(|(space, _)| is_cached(*space))
                .for_each(|(space, range)| drop(self.begin_range(*space, range))),
            Changes::Everything => {
                CACHED.iter().for_each(|space| drop(self.begin_range(*space, &KeyRange::all())));
            }
        }
    }

    /// Begins a commit of this batch, which lasts until the returned guard is dropped.
    pub fn begin(&self, batch: &Batch) -> Option<UnderWay<'_>> {
        if self.budget < self.page_bytes {
            return None;
        }
        let keys = || {
            batch
                .writes()
                .iter()
                .map(|write| (write.space, &write.key))
                .filter(|(space, _)| is_cached(*space))
        };
        keys().next()?;
        let number = {
            let mut recent = self.recent.lock();
            for space in CACHED {
                let mut written = keys().filter(|(of, _)| *of == space).map(|(_, key)| key);
                // Over many commits, their first and last keys describe the interval well enough.
                for key in written.next().into_iter().chain(written.next_back()) {
                    recent.note_written(space, key, Some(key));
                }
            }
            recent.begin(keys())
        };
        for space in CACHED {
            self.mark(space, keys().filter(|(of, _)| *of == space).map(|(_, key)| key));
        }
        Some(UnderWay { pages: self, number })
    }

    /// Begins a deletion or an ingest of a range, which lasts until the returned guard is dropped. `None` if the space is
    /// not cached.
    pub fn begin_range(&self, space: Space, range: &KeyRange) -> Option<UnderWay<'_>> {
        if !is_cached(space) {
            return None;
        }
        let number = self.recent.lock().begin_range(space, range.clone());
        if !range.is_empty() {
            self.map.write().remove_range(space, range);
        }
        Some(UnderWay { pages: self, number })
    }

    fn mark<'a>(&self, space: Space, keys: impl Iterator<Item = &'a Bytes>) {
        let mut overfull: Vec<Arc<Page>> = Vec::new();
        {
            let map = self.map.read();
            if map.of(space).is_empty() {
                return;
            }
            // Adjacent keys often come together, so the page or gap of one is tried for the next.
            let mut page: Option<&Arc<Page>> = None;
            let mut gap: Option<(&Bytes, Option<&Bytes>)> = None;
            for key in keys {
                if !page.is_some_and(|page| page.covers(key)) {
                    if gap.is_some_and(|(low, high)| low <= key && high.is_none_or(|high| key < high)) {
                        continue;
                    }
                    page = map.covering(space, key);
                    if page.is_none() {
                        gap = Some((key, map.after(space, key)));
                    }
                }
                if let Some(page) = page
                    && page.mark(key) > MOST_MARKS
                    && !overfull.last().is_some_and(|last| Arc::ptr_eq(last, page))
                {
                    overfull.push(page.clone());
                }
            }
        }
        if !overfull.is_empty() {
            let mut map = self.map.write();
            for page in overfull {
                map.remove_same(space, &page);
            }
        }
    }

    /// What the cache has at a key for a snapshot of this moment.
    pub fn find(&self, space: Space, key: &[u8], moment: Moment) -> Found {
        let map = self.map.read();
        match map.covering(space, key) {
            Some(page) => self.usable(page, moment),
            None => Found::Gap(map.after(space, key).cloned()),
        }
    }

    /// What the cache has just before a key, or before the end. A gap, or a page that is too new, comes with its first key.
    pub fn find_before(&self, space: Space, key: Option<&[u8]>, moment: Moment) -> Found {
        let map = self.map.read();
        let bound = key.map_or(Bound::Unbounded, Bound::Excluded);
        let Some((_, page)) = map.of(space).range::<[u8], _>((Bound::Unbounded, bound)).next_back() else {
            return Found::Gap(None);
        };
        let reaches = match (&page.high, key) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(high), Some(key)) => **high >= *key,
        };
        if !reaches {
            return Found::Gap(page.high.clone());
        }
        match self.usable(page, moment) {
            Found::TooNew(_) => Found::TooNew(Some(page.low.clone())),
            found => found,
        }
    }

    fn usable(&self, page: &Arc<Page>, moment: Moment) -> Found {
        if page.since > moment.time {
            return Found::TooNew(page.high.clone());
        }
        if !page.touched.load(Ordering::Relaxed) {
            page.touched.store(true, Ordering::Relaxed);
        }
        Found::Page(page.clone())
    }

    /// The value of a key, or `Some(None)` if the key has none. `None` if no page knows.
    pub fn get(&self, space: Space, key: &[u8], moment: Moment) -> Option<Option<Bytes>> {
        match self.find(space, key, moment) {
            Found::Page(page) => page.get(key),
            Found::Gap(_) | Found::TooNew(_) => None,
        }
    }

    /// Counts a short read that missed the cache. Returns the size of the page that the read must insert, if it must.
    pub fn missed(&self) -> Option<usize> {
        let number = self.misses.fetch_add(1, Ordering::Relaxed);
        // The multiples of this odd number spread evenly over 2^64, so that no regular pattern of reads is never chosen.
        let chosen = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) < u64::MAX / MISSES_FOR_A_PAGE;
        (chosen && self.budget >= self.page_bytes).then_some(self.page_bytes / SHORT_READ_PART)
    }

    /// Inserts pages built from a snapshot of this moment: in place of one page, or where there is none. Returns whether all
    /// were inserted.
    pub fn put(
        &self,
        space: Space,
        drafts: Vec<Draft>,
        instead_of: Option<&Arc<Page>>,
        moment: Moment,
    ) -> bool {
        let mut map = self.map.write();
        let marks: Option<Vec<Vec<Bytes>>> = {
            let recent = self.recent.lock();
            let written =
                |draft: &Draft| recent.written(moment.settled, space, &draft.low, draft.high.as_deref());
            drafts.iter().map(|draft| written(draft).filter(|keys| keys.len() <= MOST_MARKS)).collect()
        };
        let Some(marks) = marks else { return false };
        if instead_of.is_some_and(|page| !map.remove_same(space, page)) {
            return false;
        }
        let since = self.time.fetch_add(1, Ordering::SeqCst) + 1;
        let mut all = true;
        for (draft, marks) in drafts.into_iter().zip(marks) {
            let page = draft.placed(since, marks);
            if page.covers(&page.low) && map.is_free(space, &page) && map.make_room(page.cost(), self.budget)
            {
                map.bytes += page.cost();
                map.of_mut(space).insert(page.low.clone(), Arc::new(page));
            } else {
                all = false;
            }
        }
        all
    }
}

impl Map {
    fn of(&self, space: Space) -> &BTreeMap<Bytes, Arc<Page>> {
        &self.pages[space.index()]
    }

    fn of_mut(&mut self, space: Space) -> &mut BTreeMap<Bytes, Arc<Page>> {
        &mut self.pages[space.index()]
    }

    /// The page whose interval contains the key.
    fn covering(&self, space: Space, key: &[u8]) -> Option<&Arc<Page>> {
        let (_, page) =
            self.of(space).range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        page.ends_after(key).then_some(page)
    }

    /// The start of the next page after a key.
    fn after(&self, space: Space, key: &[u8]) -> Option<&Bytes> {
        self.of(space).range::<[u8], _>((Bound::Excluded(key), Bound::Unbounded)).next().map(|(low, _)| low)
    }

    /// Whether no page covers a part of this one's interval.
    fn is_free(&self, space: Space, page: &Page) -> bool {
        let next = self.after(space, &page.low);
        self.covering(space, &page.low).is_none()
            && next.is_none_or(|next| page.high.as_ref().is_some_and(|high| high <= next))
    }

    fn remove(&mut self, space: Space, low: &[u8]) {
        if let Some(page) = self.of_mut(space).remove(low) {
            self.bytes -= page.cost();
        }
    }

    /// Removes all pages that overlap a range. The range must not be empty.
    fn remove_range(&mut self, space: Space, range: &KeyRange) {
        let (low, high) = range.as_slices();
        // The page before the range's start may cover it.
        let first = match low {
            Bound::Included(low) | Bound::Excluded(low) => {
                self.covering(space, low).map(|page| page.low.clone())
            }
            Bound::Unbounded => None,
        };
        let inside = self.of(space).range::<[u8], _>((low, high)).map(|(low, _)| low.clone());
        for low in first.into_iter().chain(inside).collect::<Vec<_>>() {
            self.remove(space, &low);
        }
    }

    /// Removes this very page; `false` if it has been removed already.
    fn remove_same(&mut self, space: Space, page: &Arc<Page>) -> bool {
        let there = self.of(space).get(&page.low).is_some_and(|one| Arc::ptr_eq(one, page));
        if there {
            self.remove(space, &page.low);
        }
        there
    }

    /// Evicts pages that were not read recently until `cost` more bytes fit. Returns false if the next candidate was read.
    ///
    /// A call gives up at the first page that was read. So a scan that is larger than the cache leaves most pages in the
    /// cache. Otherwise it would evict each page just before it reads that page again.
    fn make_room(&mut self, cost: usize, budget: usize) -> bool {
        while self.bytes + cost > budget {
            let Some((space, page)) = self.next_candidate() else { return false };
            let read = page.touched.swap(false, Ordering::Relaxed);
            self.hand = (space.index(), page.low.clone());
            if read {
                return false;
            }
            self.remove(space, &page.low);
        }
        true
    }

    /// The page after the hand, in the order of the spaces; the first page follows the last.
    fn next_candidate(&self) -> Option<(Space, Arc<Page>)> {
        let (at, key) = &self.hand;
        let behind = self.pages[*at].range::<[u8], _>((Bound::Excluded(&**key), Bound::Unbounded)).next();
        if let Some((_, page)) = behind {
            return Some((Space::ALL[*at], page.clone()));
        }
        let spaces = Space::ALL.iter().cycle().skip(at + 1).take(Space::ALL.len());
        spaces.copied().find_map(|space| Some((space, self.of(space).values().next()?.clone())))
    }
}

/// A commit, or a deletion or an ingest of a range, that has begun. Dropping this guard ends it.
pub(super) struct UnderWay<'a> {
    pages: &'a Pages,
    number: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut recent = self.pages.recent.lock();
        let settled = recent.end(self.number);
        self.pages.settled.store(settled, Ordering::SeqCst);
    }
}
