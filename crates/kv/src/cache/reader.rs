//! Reading a snapshot by the pages, and by the engine where there are none.

use super::CACHED;
use super::page::{Draft, Packer, Page, after};
use super::pages::{Found, Moment, Pages, STALE_MARKS};
use crate::{Bytes, Direction, KeyRange, Pairs, Result, Snapshot, Space, Visitor};
use std::ops::{Bound, ControlFlow, Range};
use std::sync::Arc;

/// A snapshot of a cached engine.
pub(super) struct CachedSnapshot {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Box<dyn Snapshot>,
    pages: Arc<Pages>,
    moment: Moment,
}

impl CachedSnapshot {
    pub fn new(inner: Box<dyn Snapshot>, pages: Arc<Pages>, moment: Moment) -> Self {
        Self { shared: Arc::new(Shared { inner, pages, moment }) }
    }
}

impl Snapshot for CachedSnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let shared = &self.shared;
        if space == CACHED
            && let Some(known) = shared.pages.get(key, shared.moment)
        {
            return Ok(known);
        }
        shared.inner.get(space, key)
    }

    fn scan(&self, space: Space, range: KeyRange, direction: Direction) -> Pairs {
        if space != CACHED {
            return self.shared.inner.scan(space, range, direction);
        }
        let (from, to) = half_open(range);
        let rest = Rest { from, to };
        Box::new(Scan { shared: self.shared.clone(), rest, direction, current: Current::Nothing })
    }

    fn visit(&self, space: Space, range: KeyRange, visitor: &mut Visitor<'_>) -> Result<()> {
        if space != CACHED {
            return self.shared.inner.visit(space, range, visitor);
        }
        let (from, to) = half_open(range);
        let mut rest = Rest { from, to };
        let mut progress = Progress::default();
        while !rest.is_empty() {
            let (flow, end) = match self.shared.pages.find(&rest.from, self.shared.moment) {
                Found::Page(page) => (self.shared.visit_page(&page, &rest, visitor)?, page.high.clone()),
                Found::TooNew(end) => {
                    let part = rest.up_to(end.as_ref());
                    let mut flow = ControlFlow::Continue(());
                    self.shared.inner.visit(CACHED, part.range(), &mut |key, value| {
                        flow = visitor(key, value);
                        flow
                    })?;
                    (flow, end)
                }
                Found::Gap(end) => {
                    (self.shared.visit_gap(rest.up_to(end.as_ref()), &mut progress, visitor)?, end)
                }
            };
            match end {
                Some(end) if flow.is_continue() => rest.from = end,
                _ => break,
            }
        }
        Ok(())
    }
}

impl Shared {
    fn visit_page(
        &self,
        page: &Arc<Page>,
        rest: &Rest,
        visitor: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>> {
        let places = page.places(&rest.from, rest.to.as_deref());
        let marks = page.marks(&rest.from, rest.to.as_deref());
        if marks.is_empty() {
            return Ok(page.visit(places, visitor));
        }
        let value_of = |key: &[u8]| self.inner.get(CACHED, key);
        if marks.len() < STALE_MARKS || !rest.includes(page) {
            return page.visit_marked(places, &marks, value_of, visitor);
        }
        let Some(packer) = self.pages.packer(page.low.clone()) else {
            return page.visit_marked(places, &marks, value_of, visitor);
        };
        let mut fresh = Fresh { packer, drafts: Vec::new() };
        let flow = page.visit_marked(places, &marks, value_of, |key, value| {
            fresh.push(key, value);
            visitor(key, value)
        })?;
        if flow.is_continue() {
            let drafts = fresh.finish(page.high.clone());
            self.pages.put(drafts, Some(page), self.moment);
        }
        Ok(flow)
    }

    /// Shows what the engine has in a part without pages, and leaves pages behind.
    fn visit_gap(
        &self,
        part: Rest,
        progress: &mut Progress,
        visitor: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>> {
        let mut filler = Filler::new(self, &part, *progress);
        let mut flow = ControlFlow::Continue(());
        self.inner.visit(CACHED, part.range(), &mut |key, value| {
            filler.push(self, key, value);
            flow = visitor(key, value);
            flow
        })?;
        if flow.is_continue() {
            *progress = filler.finish(self, part.to);
        }
        Ok(flow)
    }
}

/// The pages that will take the place of one.
struct Fresh {
    packer: Packer,
    drafts: Vec<Draft>,
}

impl Fresh {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        if self.packer.takes(key, value) {
            self.drafts.extend(self.packer.push(key, value));
        } else {
            let before = self.packer.skip(key);
            self.drafts.push(before);
        }
    }

    fn finish(mut self, high: Option<Bytes>) -> Vec<Draft> {
        let last = self.packer.cut(high);
        self.drafts.push(last);
        self.drafts
    }
}

/// After a page found no room, so many pages' bytes pass by before a scan makes another one: packing costs, and what is kept
/// gives way slowly.
const PAUSE_PAGES: usize = 16;

/// How a scan has come along with making pages.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// Pages have been made, so that the rest is worth a small one.
    filled: bool,
    /// How many bytes pass by before the next page.
    pause: usize,
}

/// Makes pages of what a scan reads from the engine.
struct Filler {
    /// `None` during a pause, and where no page is ever made.
    packer: Option<Packer>,
    progress: Progress,
}

impl Filler {
    fn new(shared: &Shared, part: &Rest, progress: Progress) -> Filler {
        let packer = if progress.pause == 0 { shared.pages.packer(part.from.clone()) } else { None };
        Filler { packer, progress }
    }

    fn push(&mut self, shared: &Shared, key: &[u8], value: &[u8]) {
        if self.progress.pause > 0 {
            self.progress.pause = self.progress.pause.saturating_sub(key.len() + value.len());
            if self.progress.pause > 0 {
                return;
            }
            self.packer = shared.pages.packer(key.into());
        }
        let Some(packer) = &mut self.packer else { return };
        let draft = if packer.takes(key, value) {
            packer.push(key, value)
        } else {
            let worthwhile = shared.pages.worthwhile(packer.pending());
            Some(packer.skip(key)).filter(|_| worthwhile)
        };
        if let Some(draft) = draft {
            self.put(shared, draft);
        }
    }

    fn put(&mut self, shared: &Shared, draft: Draft) {
        if shared.pages.put(vec![draft], None, shared.moment) {
            self.progress.filled = true;
        } else {
            self.progress.pause = shared.pages.page_bytes() * PAUSE_PAGES;
            self.packer = None;
        }
    }

    /// The part has been read to its end.
    fn finish(mut self, shared: &Shared, high: Option<Bytes>) -> Progress {
        if let Some(mut packer) = self.packer.take()
            && (self.progress.filled || shared.pages.worthwhile(packer.pending()))
        {
            self.put(shared, packer.cut(high));
        }
        self.progress
    }
}

/// What is still to be read: from a key, included, up to another, excluded, or to the end.
struct Rest {
    from: Bytes,
    to: Option<Bytes>,
}

impl Rest {
    fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| self.from >= *to)
    }

    /// The part of it before a key.
    fn up_to(&self, end: Option<&Bytes>) -> Rest {
        let to = match (&self.to, end) {
            (Some(to), Some(end)) => Some(to.min(end).clone()),
            (to, end) => to.as_ref().or(end).cloned(),
        };
        Rest { from: self.from.clone(), to }
    }

    /// The part of it from a key on.
    fn beginning_at(&self, start: Option<&Bytes>) -> Rest {
        let from = start.map_or(&self.from, |start| start.max(&self.from)).clone();
        Rest { from, to: self.to.clone() }
    }

    fn range(&self) -> KeyRange {
        let start = if self.from.is_empty() { Bound::Unbounded } else { Bound::Included(self.from.clone()) };
        KeyRange::new(start, self.to.clone().map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// Whether all of a page is to be read.
    fn includes(&self, page: &Page) -> bool {
        self.from <= page.low
            && match (&self.to, &page.high) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(to), Some(high)) => high <= to,
            }
    }
}

/// A range as its first key and the first after it.
fn half_open(range: KeyRange) -> (Bytes, Option<Bytes>) {
    let from = match range.start {
        Bound::Included(key) => key,
        Bound::Excluded(key) => after(&key),
        Bound::Unbounded => Bytes::default(),
    };
    let to = match range.end {
        Bound::Included(key) => Some(after(&key)),
        Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    };
    (from, to)
}

/// A scan: a page or a part of the engine after another, from either end.
struct Scan {
    shared: Arc<Shared>,
    rest: Rest,
    direction: Direction,
    current: Current,
}

enum Current {
    Nothing,
    Page(Arc<Page>, Range<usize>),
    /// What a page and the engine gave together, in the scan's order.
    Pairs(std::vec::IntoIter<(Bytes, Bytes)>),
    /// The engine's pairs; in a forward scan of a gap with what makes pages of them, and where the gap ends.
    Engine(Pairs, Option<(Filler, Option<Bytes>)>),
    Ended,
}

impl Scan {
    /// Goes to the next page or gap; `false` at the end.
    fn advance(&mut self) -> Result<bool> {
        if self.rest.is_empty() {
            return Ok(false);
        }
        let forward = self.direction == Direction::Forward;
        let found = if forward {
            self.shared.pages.find(&self.rest.from, self.shared.moment)
        } else {
            self.shared.pages.find_before(self.rest.to.as_deref(), self.shared.moment)
        };
        let (next, end) = match found {
            Found::Page(page) => {
                let end = if forward { page.high.clone() } else { Some(page.low.clone()) };
                (self.page(page)?, end)
            }
            Found::Gap(end) => (self.engine(end.as_ref(), forward), end),
            Found::TooNew(end) => (self.engine(end.as_ref(), false), end),
        };
        self.current = next;
        match end {
            Some(end) if forward => self.rest.from = end,
            Some(end) => self.rest.to = Some(end),
            // Nothing is left: an interval that ends where it begins.
            None => self.rest.to = Some(self.rest.from.clone()),
        }
        Ok(true)
    }

    fn page(&self, page: Arc<Page>) -> Result<Current> {
        let (from, to) = (&self.rest.from, self.rest.to.as_deref());
        let places = page.places(from, to);
        let marks = page.marks(from, to);
        if marks.is_empty() {
            return Ok(Current::Page(page, places));
        }
        let mut pairs = Vec::with_capacity(places.len());
        let value_of = |key: &[u8]| self.shared.inner.get(CACHED, key);
        let _ = page.visit_marked(places, &marks, value_of, |key, value| {
            pairs.push((Bytes::from(key), Bytes::from(value)));
            ControlFlow::Continue(())
        })?;
        if self.direction == Direction::Reverse {
            pairs.reverse();
        }
        Ok(Current::Pairs(pairs.into_iter()))
    }

    fn engine(&self, end: Option<&Bytes>, fills: bool) -> Current {
        let part = match self.direction {
            Direction::Forward => self.rest.up_to(end),
            Direction::Reverse => self.rest.beginning_at(end),
        };
        let pairs = self.shared.inner.scan(CACHED, part.range(), self.direction);
        let filler = fills.then(|| (Filler::new(&self.shared, &part, Progress::default()), part.to));
        Current::Engine(pairs, filler)
    }
}

impl Iterator for Scan {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match &mut self.current {
                Current::Page(page, places) => {
                    let place = match self.direction {
                        Direction::Forward => places.next(),
                        Direction::Reverse => places.next_back(),
                    };
                    if let Some(place) = place {
                        return Some(Ok(page.pair(place)));
                    }
                }
                Current::Pairs(pairs) => {
                    if let Some(pair) = pairs.next() {
                        return Some(Ok(pair));
                    }
                }
                Current::Engine(pairs, filler) => match pairs.next() {
                    Some(Ok((key, value))) => {
                        if let Some((filler, _)) = filler {
                            filler.push(&self.shared, &key, &value);
                        }
                        return Some(Ok((key, value)));
                    }
                    Some(Err(error)) => {
                        self.current = Current::Ended;
                        return Some(Err(error));
                    }
                    None => {
                        if let Some((filler, end)) = filler.take() {
                            filler.finish(&self.shared, end);
                        }
                    }
                },
                Current::Nothing => {}
                Current::Ended => return None,
            }
            match self.advance() {
                Ok(true) => {}
                Ok(false) => self.current = Current::Ended,
                Err(error) => {
                    self.current = Current::Ended;
                    return Some(Err(error));
                }
            }
        }
    }
}
