//! A page: all pairs of an interval of keys, packed, and marks for the keys that have been written since its snapshot.

use super::heads::Heads;
use super::interval::after;
use crate::{Bytes, Result};
use byteview::ByteView;
use parking_lot::Mutex;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// The memory of a page beside its pairs.
const OVERHEAD: usize = 256;

/// All pairs from `low`, included, to `high`, excluded, as one snapshot showed them.
pub(super) struct Page {
    pub low: Bytes,
    /// `None`: to the end of the space.
    pub high: Option<Bytes>,
    /// The pairs: key, value, key, value…
    bytes: ByteView,
    /// For each pair, the end of its key and the end of its value.
    ends: Box<[(u32, u32)]>,
    heads: Heads,
    /// The earliest moment whose snapshots may use the page.
    pub since: u64,
    /// The keys of commits that the page's snapshot may not include; sorted.
    marks: Mutex<Vec<Bytes>>,
    mark_count: AtomicUsize,
    /// Whether the page was read since eviction last considered it.
    pub touched: AtomicBool,
}

/// A page that has not been inserted yet.
pub(super) struct Draft {
    pub low: Bytes,
    pub high: Option<Bytes>,
    bytes: ByteView,
    ends: Box<[(u32, u32)]>,
    heads: Heads,
}

/// Where a pair's key is among the bytes, according to the ends of the pairs.
fn key_place(ends: &[(u32, u32)], at: usize) -> Range<usize> {
    let begin = if at == 0 { 0 } else { ends[at - 1].1 };
    begin as usize..ends[at].0 as usize
}

impl Draft {
    /// Whether its interval is empty, which happens after a pair that is too large for a page.
    pub fn is_void(&self) -> bool {
        self.high.as_ref() == Some(&self.low)
    }

    /// The page, with marks for the keys that were written since its snapshot.
    pub fn placed(self, since: u64, marks: Vec<Bytes>) -> Page {
        Page {
            low: self.low,
            high: self.high,
            bytes: self.bytes,
            ends: self.ends,
            heads: self.heads,
            since,
            mark_count: AtomicUsize::new(marks.len()),
            marks: Mutex::new(marks),
            touched: AtomicBool::new(true),
        }
    }
}

impl Page {
    /// Whether the key lies in the page's interval.
    pub fn covers(&self, key: &[u8]) -> bool {
        *self.low <= *key && self.ends_after(key)
    }

    /// Whether the page's interval ends after the key.
    pub fn ends_after(&self, key: &[u8]) -> bool {
        self.high.as_ref().is_none_or(|high| *key < **high)
    }

    /// About how much memory the page takes.
    pub fn cost(&self) -> usize {
        OVERHEAD + self.bytes.len() + size_of_val(&*self.ends) + self.heads.cost()
    }

    /// Marks a key that is being written; returns how many keys are marked.
    pub fn mark(&self, key: &Bytes) -> usize {
        let mut marks = self.marks.lock();
        if let Err(place) = marks.binary_search(key) {
            marks.insert(place, key.clone());
            self.mark_count.store(marks.len(), SeqCst);
        }
        marks.len()
    }

    fn is_marked(&self, key: &[u8]) -> bool {
        self.mark_count.load(SeqCst) > 0
            && self.marks.lock().binary_search_by(|mark| (**mark).cmp(key)).is_ok()
    }

    /// The marked keys from `from`, included, to `to`, excluded.
    pub fn marks(&self, from: &[u8], to: Option<&[u8]>) -> Vec<Bytes> {
        if self.mark_count.load(SeqCst) == 0 {
            return Vec::new();
        }
        let marks = self.marks.lock();
        let first = marks.partition_point(|mark| **mark < *from);
        marks[first..].iter().take_while(|mark| to.is_none_or(|to| ***mark < *to)).cloned().collect()
    }

    fn key(&self, at: usize) -> &[u8] {
        &self.bytes[key_place(&self.ends, at)]
    }

    /// The pair at a place.
    pub fn pair(&self, at: usize) -> (Bytes, Bytes) {
        let key = key_place(&self.ends, at);
        let value = key.end..self.ends[at].1 as usize;
        (self.bytes.slice(key).into(), self.bytes.slice(value).into())
    }

    /// The places of the pairs from `from`, included, to `to`, excluded.
    pub fn places(&self, from: &[u8], to: Option<&[u8]>) -> Range<usize> {
        let start = if *from <= *self.low { 0 } else { self.place_of(from) };
        let whole = match (to, &self.high) {
            (None, _) => true,
            (Some(to), Some(high)) => *to >= **high,
            (Some(_), None) => false,
        };
        start..if whole { self.ends.len() } else { to.map_or(self.ends.len(), |to| self.place_of(to)) }
    }

    /// How many pairs have smaller keys than this one.
    fn place_of(&self, key: &[u8]) -> usize {
        let Range { start: mut low, end: mut high } = self.heads.candidates(key);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The value of a key, or `Some(None)` if the key has none. `None` if the key is marked, so that the page does not know.
    pub fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        if self.is_marked(key) {
            return None;
        }
        let place = self.place_of(key);
        let here = place < self.ends.len() && self.key(place) == key;
        Some(here.then(|| self.pair(place).1))
    }

    /// Calls `show` with the pairs at these places, in their order, until it breaks.
    pub fn visit(
        &self,
        places: Range<usize>,
        mut show: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut begin = if places.start == 0 { 0 } else { self.ends[places.start - 1].1 as usize };
        for &(key, value) in &self.ends[places] {
            let (key, value) = (key as usize, value as usize);
            show(&self.bytes[begin..key], &self.bytes[key..value])?;
            begin = value;
        }
        ControlFlow::Continue(())
    }

    /// Like [`Page::visit`], with the values of the keys in `marks`, which are sorted, from `value_of`.
    pub fn visit_marked(
        &self,
        places: Range<usize>,
        marks: &[Bytes],
        value_of: impl Fn(&[u8]) -> Result<Option<Bytes>>,
        mut show: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let mut start = places.start;
        for mark in marks {
            let place = self.place_of(mark).clamp(start, places.end);
            if self.visit(start..place, &mut show).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let here = place < places.end && self.key(place) == &**mark;
            start = place + usize::from(here);
            if let Some(value) = value_of(mark)?
                && show(mark, &value).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(self.visit(start..places.end, show))
    }
}

/// Packs pairs, in ascending order, into pages.
pub(super) struct Packer {
    low: Bytes,
    limit: usize,
    bytes: Vec<u8>,
    ends: Vec<(u32, u32)>,
}

impl Packer {
    /// Packs pages of about `limit` bytes, the first of which begins at `low`.
    pub fn new(low: Bytes, limit: usize) -> Packer {
        Packer { low, limit, bytes: Vec::new(), ends: Vec::new() }
    }

    /// Whether a pair is small enough for a page.
    pub fn takes(&self, key: &[u8], value: &[u8]) -> bool {
        key.len() + value.len() <= self.limit / 2
    }

    /// Whether the current page has at most `most` bytes with this pair added.
    pub fn fits(&self, key: &[u8], value: &[u8], most: usize) -> bool {
        self.bytes.len() + key.len() + value.len() <= most
    }

    /// Adds the next pair. If the current page is full, returns that page; it ends before the pair.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Option<Draft> {
        let full = !self.fits(key, value, self.limit);
        let draft = full.then(|| self.cut(Some(key.into())));
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len() as u32));
        draft
    }

    /// Returns a page of the pairs since the last page. It ends at `high`, where the next page begins.
    pub fn cut(&mut self, high: Option<Bytes>) -> Draft {
        let low = std::mem::replace(&mut self.low, high.clone().unwrap_or_default());
        let heads = Heads::of((0..self.ends.len()).map(|at| &self.bytes[key_place(&self.ends, at)]));
        let draft =
            Draft { low, high, bytes: ByteView::new(&self.bytes), ends: self.ends.as_slice().into(), heads };
        self.bytes.clear();
        self.ends.clear();
        draft
    }

    /// Leaves out a pair. Returns the page before it; the next page begins after it.
    pub fn skip(&mut self, key: &[u8]) -> Draft {
        let draft = self.cut(Some(key.into()));
        self.low = after(key);
        draft
    }

    /// How many bytes have been packed since the last page.
    pub fn pending(&self) -> usize {
        self.bytes.len()
    }
}
