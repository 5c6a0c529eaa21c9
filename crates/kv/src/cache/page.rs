//! A page: all pairs of an interval of keys, packed, and the keys that have been written since.

use super::heads::Heads;
use crate::{Bytes, Result};
use byteview::ByteView;
use parking_lot::Mutex;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// What a page costs beside its pairs.
const OVERHEAD: usize = 256;

/// All pairs from `low` up to, but without, `high`, as one snapshot showed them.
pub(super) struct Page {
    pub low: Bytes,
    /// `None`: up to the last of all keys.
    pub high: Option<Bytes>,
    /// The pairs: key, value, key, value…
    bytes: ByteView,
    /// For each pair, where its key ends and where its value does.
    ends: Box<[(u32, u32)]>,
    heads: Heads,
    /// The moment from which on snapshots may use it.
    pub since: u64,
    /// The keys of commits that its snapshot perhaps did not show; sorted.
    marks: Mutex<Vec<Bytes>>,
    mark_count: AtomicUsize,
    /// Whether it was read since the last search for pages to drop came by.
    pub touched: AtomicBool,
}

/// A page that has no place yet.
pub(super) struct Draft {
    pub low: Bytes,
    pub high: Option<Bytes>,
    bytes: ByteView,
    ends: Box<[(u32, u32)]>,
    heads: Heads,
}

/// Where the key of a pair lies among the bytes, by the ends of the pairs.
fn key_place(ends: &[(u32, u32)], at: usize) -> Range<usize> {
    let begin = if at == 0 { 0 } else { ends[at - 1].1 };
    begin as usize..ends[at].0 as usize
}

impl Draft {
    /// Whether no key at all is in its interval: behind a pair that was too great for a page.
    pub fn is_void(&self) -> bool {
        self.high.as_ref() == Some(&self.low)
    }

    /// The page, with the keys that are known to have been written since its snapshot.
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

    /// Whether its interval goes on behind the key.
    pub fn ends_after(&self, key: &[u8]) -> bool {
        self.high.as_ref().is_none_or(|high| *key < **high)
    }

    /// About how much memory it takes.
    pub fn cost(&self) -> usize {
        OVERHEAD + self.bytes.len() + size_of_val(&*self.ends) + self.heads.cost()
    }

    /// Notes that a key is being written; returns how many keys are noted.
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

    /// The noted keys from `from` on and before `to`.
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

    /// The places of the pairs from `from` on and before `to`.
    pub fn places(&self, from: &[u8], to: Option<&[u8]>) -> Range<usize> {
        let start = if *from <= *self.low { 0 } else { self.place_of(from) };
        let whole = match (to, &self.high) {
            (None, _) => true,
            (Some(to), Some(high)) => *to >= **high,
            (Some(_), None) => false,
        };
        start..if whole { self.ends.len() } else { to.map_or(self.ends.len(), |to| self.place_of(to)) }
    }

    /// How many pairs have lesser keys.
    fn place_of(&self, key: &[u8]) -> usize {
        let Range { start: mut low, end: mut high } = self.heads.candidates(key);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// What the page knows of a key: nothing if it is noted, else its value or that there is none.
    pub fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        if self.is_marked(key) {
            return None;
        }
        let place = self.place_of(key);
        let here = place < self.ends.len() && self.key(place) == key;
        Some(here.then(|| self.pair(place).1))
    }

    /// Shows the pairs at these places, in their order, until it breaks.
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

    /// The same, but of the keys in `marks`, which are sorted, what `value_of` says.
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

/// Packs pairs that come in order.
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

    /// Whether the page under way has at most so many bytes with a pair more.
    pub fn fits(&self, key: &[u8], value: &[u8], most: usize) -> bool {
        self.bytes.len() + key.len() + value.len() <= most
    }

    /// The next pair. Returns the page that ends before it, if one is full.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Option<Draft> {
        let full = !self.fits(key, value, self.limit);
        let draft = full.then(|| self.cut(Some(key.into())));
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len() as u32));
        draft
    }

    /// The page of what was packed since the last one, up to `high`, from where the next begins.
    pub fn cut(&mut self, high: Option<Bytes>) -> Draft {
        let low = std::mem::replace(&mut self.low, high.clone().unwrap_or_default());
        let heads = Heads::of((0..self.ends.len()).map(|at| &self.bytes[key_place(&self.ends, at)]));
        let draft =
            Draft { low, high, bytes: ByteView::new(&self.bytes), ends: self.ends.as_slice().into(), heads };
        self.bytes.clear();
        self.ends.clear();
        draft
    }

    /// Leaves out a pair: what comes next begins after it.
    pub fn skip(&mut self, key: &[u8]) -> Draft {
        let draft = self.cut(Some(key.into()));
        self.low = after(key);
        draft
    }

    /// Bytes packed since the last page.
    pub fn pending(&self) -> usize {
        self.bytes.len()
    }
}

/// The first key after this one.
pub(super) fn after(key: &[u8]) -> Bytes {
    [key, &[0]].concat().into()
}
