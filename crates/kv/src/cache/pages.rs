//! All pages, by their keys: finding them, noting writes in them, putting them in and dropping them.

use super::CACHED;
use super::page::{Draft, Packer, Page};
use super::recent::Recent;
use crate::{Batch, Bytes, KeyRange};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A page with more noted keys than this is dropped: it is written more than it is read.
const MOST_MARKS: usize = 64;
/// From so many noted keys on, a reader leaves a fresh page behind: making one costs about as much as asking for them.
pub(super) const STALE_MARKS: usize = 3;

/// When something was, for the cache: see [`Pages::moment`].
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// How many pages had been put in.
    time: u64,
    /// All commits with lower numbers had ended.
    settled: u64,
}

/// What lies at a key.
pub(super) enum Found {
    /// A page that covers it.
    Page(Arc<Page>),
    /// No page, up to a key or to the end.
    Gap(Option<Bytes>),
    /// A page that came too late for the reader, up to a key or to the end.
    TooNew(Option<Bytes>),
}

#[derive(Default)]
struct Map {
    pages: BTreeMap<Bytes, Arc<Page>>,
    bytes: usize,
    /// Where the next search for a page to drop begins.
    hand: Bytes,
}

/// All pages.
pub(super) struct Pages {
    // Taken before `recent` where both are needed.
    map: RwLock<Map>,
    recent: Mutex<Recent>,
    /// How many times pages have been put in.
    time: AtomicU64,
    /// `recent`'s number below which all commits have ended.
    settled: AtomicU64,
    budget: usize,
    page_bytes: usize,
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
        }
    }

    /// About how many bytes a page holds.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Bytes that the pages take.
    pub fn bytes(&self) -> usize {
        self.map.read().bytes
    }

    /// The most bytes that they may take.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Now.
    pub fn moment(&self) -> Moment {
        Moment { time: self.time.load(Ordering::SeqCst), settled: self.settled.load(Ordering::SeqCst) }
    }

    /// Something that packs pages from a key on; `None` if there is no room for any.
    pub fn packer(&self, low: Bytes) -> Option<Packer> {
        (self.budget >= self.page_bytes).then(|| Packer::new(low, self.page_bytes))
    }

    /// Whether a page of so many bytes is worth its place on its own.
    pub fn worthwhile(&self, bytes: usize) -> bool {
        bytes >= self.page_bytes / 16
    }

    /// A commit of this batch begins; it has ended when what is returned is dropped.
    pub fn begin(&self, batch: &Batch) -> Option<UnderWay<'_>> {
        if self.budget < self.page_bytes {
            return None;
        }
        let keys = || batch.writes().iter().filter(|write| write.space == CACHED).map(|write| &write.key);
        keys().next()?;
        let number = self.recent.lock().begin(keys());
        self.mark(keys());
        Some(UnderWay { pages: self, number })
    }

    /// The deletion of a range begins; it has ended when what is returned is dropped.
    pub fn begin_range(&self, range: &KeyRange) -> UnderWay<'_> {
        let number = self.recent.lock().begin_range(range.clone());
        if !range.is_empty() {
            self.map.write().remove_range(range);
        }
        UnderWay { pages: self, number }
    }

    fn mark<'a>(&self, keys: impl Iterator<Item = &'a Bytes>) {
        let mut overfull: Vec<Arc<Page>> = Vec::new();
        {
            let map = self.map.read();
            if map.pages.is_empty() {
                return;
            }
            // Neighbouring keys often come together: what was found for one is tried for the next.
            let mut page: Option<&Arc<Page>> = None;
            let mut gap: Option<(&Bytes, Option<&Bytes>)> = None;
            for key in keys {
                if !page.is_some_and(|page| page.covers(key)) {
                    if gap.is_some_and(|(low, high)| low <= key && high.is_none_or(|high| key < high)) {
                        continue;
                    }
                    page = map.covering(key);
                    if page.is_none() {
                        gap = Some((key, map.after(key)));
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
                map.remove_same(&page);
            }
        }
    }

    /// What lies at a key for a snapshot of this moment.
    pub fn find(&self, key: &[u8], moment: Moment) -> Found {
        let map = self.map.read();
        match map.covering(key) {
            Some(page) => Self::usable(page, moment),
            None => Found::Gap(map.after(key).cloned()),
        }
    }

    /// What lies before a key, or before the end; a gap or a page that is too new with the key where it begins.
    pub fn find_before(&self, key: Option<&[u8]>, moment: Moment) -> Found {
        let map = self.map.read();
        let bound = key.map_or(Bound::Unbounded, Bound::Excluded);
        let Some((_, page)) = map.pages.range::<[u8], _>((Bound::Unbounded, bound)).next_back() else {
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
        match Self::usable(page, moment) {
            Found::TooNew(_) => Found::TooNew(Some(page.low.clone())),
            found => found,
        }
    }

    fn usable(page: &Arc<Page>, moment: Moment) -> Found {
        if page.since > moment.time {
            return Found::TooNew(page.high.clone());
        }
        if !page.touched.load(Ordering::Relaxed) {
            page.touched.store(true, Ordering::Relaxed);
        }
        Found::Page(page.clone())
    }

    /// What is known of a key: nothing, or its value, or that it has none.
    pub fn get(&self, key: &[u8], moment: Moment) -> Option<Option<Bytes>> {
        match self.find(key, moment) {
            Found::Page(page) => page.get(key),
            Found::Gap(_) | Found::TooNew(_) => None,
        }
    }

    /// Puts in what was read from a snapshot of this moment: in the place of one page, or where there is none. Returns
    /// whether all found a place.
    pub fn put(&self, drafts: Vec<Draft>, instead_of: Option<&Arc<Page>>, moment: Moment) -> bool {
        let mut map = self.map.write();
        let marks: Option<Vec<Vec<Bytes>>> = {
            let recent = self.recent.lock();
            let written = |draft: &Draft| recent.written(moment.settled, &draft.low, draft.high.as_deref());
            drafts.iter().map(|draft| written(draft).filter(|keys| keys.len() <= MOST_MARKS)).collect()
        };
        let Some(marks) = marks else { return false };
        if instead_of.is_some_and(|page| !map.remove_same(page)) {
            return false;
        }
        let since = self.time.fetch_add(1, Ordering::SeqCst) + 1;
        let mut all = true;
        for (draft, marks) in drafts.into_iter().zip(marks) {
            let page = draft.placed(since, marks);
            if page.covers(&page.low) && map.is_free(&page) && map.make_room(page.cost(), self.budget) {
                map.bytes += page.cost();
                map.pages.insert(page.low.clone(), Arc::new(page));
            } else {
                all = false;
            }
        }
        all
    }
}

impl Map {
    /// The page whose interval the key lies in.
    fn covering(&self, key: &[u8]) -> Option<&Arc<Page>> {
        let (_, page) = self.pages.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        page.covers(key).then_some(page)
    }

    /// Where the next page after a key begins.
    fn after(&self, key: &[u8]) -> Option<&Bytes> {
        self.pages.range::<[u8], _>((Bound::Excluded(key), Bound::Unbounded)).next().map(|(low, _)| low)
    }

    /// Whether no page covers a part of this one's interval.
    fn is_free(&self, page: &Page) -> bool {
        let next = self.after(&page.low);
        self.covering(&page.low).is_none()
            && next.is_none_or(|next| page.high.as_ref().is_some_and(|high| high <= next))
    }

    fn remove(&mut self, low: &[u8]) {
        if let Some(page) = self.pages.remove(low) {
            self.bytes -= page.cost();
        }
    }

    /// Removes all pages that a range, which is not empty, reaches into.
    fn remove_range(&mut self, range: &KeyRange) {
        let (low, high) = range.as_slices();
        // The page before the range's start may cover it.
        let first = match low {
            Bound::Included(low) | Bound::Excluded(low) => self.covering(low).map(|page| page.low.clone()),
            Bound::Unbounded => None,
        };
        let inside = self.pages.range::<[u8], _>((low, high)).map(|(low, _)| low.clone());
        for low in first.into_iter().chain(inside).collect::<Vec<_>>() {
            self.remove(&low);
        }
    }

    /// Removes this very page; `false` if it has gone already.
    fn remove_same(&mut self, page: &Arc<Page>) -> bool {
        let there = self.pages.get(&page.low).is_some_and(|one| Arc::ptr_eq(one, page));
        if there {
            self.remove(&page.low);
        }
        there
    }

    /// Drops pages that were not read of late until `cost` bytes more fit; `false` if the next that could go was read.
    ///
    /// One look a page: a scan of more than there is room for then leaves what is kept alone, instead of dropping each
    /// page just before it comes to it again.
    fn make_room(&mut self, cost: usize, budget: usize) -> bool {
        while self.bytes + cost > budget {
            let next = self.after(&self.hand).or_else(|| self.pages.keys().next()).cloned();
            let Some(page) = next.as_ref().and_then(|low| self.pages.get(low)) else { return false };
            let read = page.touched.swap(false, Ordering::Relaxed);
            self.hand = page.low.clone();
            if read {
                return false;
            }
            let low = self.hand.clone();
            self.remove(&low);
        }
        true
    }
}

/// A commit or deletion that has begun; it ends when this is dropped.
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
