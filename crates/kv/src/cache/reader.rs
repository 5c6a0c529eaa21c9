//! Reading a snapshot by the pages, and by the engine where there are none.

use super::credit::Miss;
use super::fill::{self, Collector, Filler, Fresh, Progress};
use super::is_cached;
use super::page::{Page, after};
use super::pages::{Found, Moment, Pages, STALE_MARKS};
use crate::{Bytes, Direction, KeyRange, Pairs, Result, Snapshot, Space, Visitor};
use std::ops::{Bound, ControlFlow, Range};
use std::sync::Arc;

/// A snapshot of a cached engine.
pub(super) struct CachedSnapshot {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub inner: Box<dyn Snapshot>,
    pub pages: Arc<Pages>,
    pub moment: Moment,
}

impl CachedSnapshot {
    pub fn new(inner: Box<dyn Snapshot>, pages: Arc<Pages>, moment: Moment) -> Self {
        Self { shared: Arc::new(Shared { inner, pages, moment }) }
    }
}

impl Snapshot for CachedSnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let shared = &self.shared;
        let found = is_cached(space).then(|| shared.pages.find(space, key, shared.moment));
        if let Some(Found::Page(page)) = &found
            && let Some(known) = page.get(key)
        {
            return Ok(known);
        }
        let value = shared.inner.get(space, key)?;
        if let Some(Found::Gap(end)) = found
            && let Some(bytes) = shared.pages.missed(Miss::Key)
        {
            fill::from(shared, space, key, end, bytes);
        }
        Ok(value)
    }

    fn scan(&self, space: Space, range: KeyRange, direction: Direction) -> Pairs {
        if !is_cached(space) {
            return self.shared.inner.scan(space, range, direction);
        }
        let (from, to) = half_open(range);
        let rest = Rest { from, to };
        Box::new(Scan { shared: self.shared.clone(), space, rest, direction, current: Current::Nothing })
    }

    fn visit(&self, space: Space, range: KeyRange, visitor: &mut Visitor<'_>) -> Result<()> {
        if !is_cached(space) {
            return self.shared.inner.visit(space, range, visitor);
        }
        let (from, to) = half_open(range);
        let mut rest = Rest { from, to };
        let mut progress = Progress::default();
        while !rest.is_empty() {
            let (flow, end) = match self.shared.pages.find(space, &rest.from, self.shared.moment) {
                Found::Page(page) => {
                    (self.shared.visit_page(space, &page, &rest, visitor)?, page.high.clone())
                }
                Found::TooNew(end) => {
                    let part = rest.up_to(end.as_ref());
                    let mut flow = ControlFlow::Continue(());
                    self.shared.inner.visit(space, part.range(), &mut |key, value| {
                        flow = visitor(key, value);
                        flow
                    })?;
                    (flow, end)
                }
                Found::Gap(end) => {
                    (self.shared.visit_gap(space, &rest, end.as_ref(), &mut progress, visitor)?, end)
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
        space: Space,
        page: &Arc<Page>,
        rest: &Rest,
        visitor: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>> {
        let places = page.places(&rest.from, rest.to.as_deref());
        let marks = page.marks(&rest.from, rest.to.as_deref());
        if marks.is_empty() {
            return Ok(page.visit(places, visitor));
        }
        let value_of = |key: &[u8]| self.inner.get(space, key);
        if marks.len() < STALE_MARKS || !rest.includes(page) {
            return page.visit_marked(places, &marks, value_of, visitor);
        }
        let Some(mut fresh) = Fresh::new(&self.pages, page) else {
            return page.visit_marked(places, &marks, value_of, visitor);
        };
        let flow = page.visit_marked(places, &marks, value_of, |key, value| {
            fresh.push(key, value);
            visitor(key, value)
        })?;
        if flow.is_continue() {
            let drafts = fresh.finish(page.high.clone());
            self.pages.put(space, drafts, Some(page), self.moment);
        }
        Ok(flow)
    }

    /// Shows what the engine has in a part without pages, and leaves pages behind.
    fn visit_gap(
        &self,
        space: Space,
        rest: &Rest,
        end: Option<&Bytes>,
        progress: &mut Progress,
        visitor: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>> {
        let part = rest.up_to(end);
        let mut filler = Filler::new(self, space, &part, *progress);
        let mut flow = ControlFlow::Continue(());
        self.inner.visit(space, part.range(), &mut |key, value| {
            filler.push(self, key, value);
            flow = visitor(key, value);
            flow
        })?;
        if flow.is_continue() {
            *progress = filler.finish(self, part.to, end.cloned());
        }
        Ok(flow)
    }
}

/// What is still to be read: from a key, included, up to another, excluded, or to the end.
pub(super) struct Rest {
    pub from: Bytes,
    pub to: Option<Bytes>,
}

impl Rest {
    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| self.from >= *to)
    }

    /// The smallest one that includes this and another.
    pub fn around(&self, other: &Rest) -> Rest {
        let from = (&self.from).min(&other.from).clone();
        let to = self.to.as_ref().zip(other.to.as_ref()).map(|(to, other)| to.max(other).clone());
        Rest { from, to }
    }

    /// The part of it before a key.
    pub fn up_to(&self, end: Option<&Bytes>) -> Rest {
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

    pub fn range(&self) -> KeyRange {
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
pub(super) fn half_open(range: KeyRange) -> (Bytes, Option<Bytes>) {
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
    space: Space,
    rest: Rest,
    direction: Direction,
    current: Current,
}

enum Current {
    Nothing,
    Page(Arc<Page>, Range<usize>),
    /// What a page and the engine gave together, in the scan's order.
    Pairs(std::vec::IntoIter<(Bytes, Bytes)>),
    Engine(Pairs, Leaves),
    Ended,
}

/// What the engine's pairs leave behind.
enum Leaves {
    Nothing,
    /// Pages, in a forward scan; with where the part that is read ends, and where the next page begins.
    Pages {
        filler: Filler,
        to: Option<Bytes>,
        end: Option<Bytes>,
    },
    /// One page, in a reverse scan; with where the part that is read begins.
    Page {
        collector: Collector,
        from: Bytes,
    },
}

impl Scan {
    /// Goes to the next page or gap; `false` at the end.
    fn advance(&mut self) -> Result<bool> {
        if self.rest.is_empty() {
            return Ok(false);
        }
        let forward = self.direction == Direction::Forward;
        let found = if forward {
            self.shared.pages.find(self.space, &self.rest.from, self.shared.moment)
        } else {
            self.shared.pages.find_before(self.space, self.rest.to.as_deref(), self.shared.moment)
        };
        let (next, end) = match found {
            Found::Page(page) => {
                let end = if forward { page.high.clone() } else { Some(page.low.clone()) };
                (self.page(page)?, end)
            }
            Found::Gap(end) => (self.gap(end.as_ref()), end),
            Found::TooNew(end) => {
                (Current::Engine(self.engine(&self.part(end.as_ref())), Leaves::Nothing), end)
            }
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
        if page.marks(from, to).is_empty() {
            return Ok(Current::Page(page, places));
        }
        let mut pairs = Vec::with_capacity(places.len());
        let _ = self.shared.visit_page(self.space, &page, &self.rest, &mut |key, value| {
            pairs.push((Bytes::from(key), Bytes::from(value)));
            ControlFlow::Continue(())
        })?;
        if self.direction == Direction::Reverse {
            pairs.reverse();
        }
        Ok(Current::Pairs(pairs.into_iter()))
    }

    /// What is to be read up to the end of a gap.
    fn part(&self, end: Option<&Bytes>) -> Rest {
        match self.direction {
            Direction::Forward => self.rest.up_to(end),
            Direction::Reverse => self.rest.beginning_at(end),
        }
    }

    fn engine(&self, part: &Rest) -> Pairs {
        self.shared.inner.scan(self.space, part.range(), self.direction)
    }

    /// Begins to read a gap from the engine.
    fn gap(&self, end: Option<&Bytes>) -> Current {
        let part = self.part(end);
        let pairs = self.engine(&part);
        let leaves = match self.direction {
            Direction::Forward => {
                let filler = Filler::new(&self.shared, self.space, &part, Progress::default());
                Leaves::Pages { filler, to: part.to, end: end.cloned() }
            }
            Direction::Reverse => match self.shared.pages.missed(Miss::Scan) {
                Some(bytes) => {
                    Leaves::Page { collector: Collector::new(self.space, part.to, bytes), from: part.from }
                }
                None => Leaves::Nothing,
            },
        };
        Current::Engine(pairs, leaves)
    }

    /// The engine's pairs have been read to their end.
    fn leave_behind(&self, leaves: Leaves) {
        match leaves {
            Leaves::Nothing => {}
            Leaves::Pages { filler, to, end } => {
                filler.finish(&self.shared, to, end);
            }
            Leaves::Page { collector, from } => collector.finish(&self.shared, from),
        }
    }
}

/// A scan that is given up early reads on for the page that it may leave behind.
impl Drop for Scan {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.current, Current::Ended) {
            Current::Engine(pairs, Leaves::Pages { filler, to, .. }) => {
                filler.read_on(&self.shared, pairs, to);
            }
            Current::Engine(pairs, Leaves::Page { collector, from }) => {
                collector.read_on(&self.shared, pairs, from);
            }
            _ => {}
        }
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
                Current::Engine(pairs, leaves) => match pairs.next() {
                    Some(Ok((key, value))) => {
                        match leaves {
                            Leaves::Nothing => {}
                            Leaves::Pages { filler, .. } => filler.push(&self.shared, &key, &value),
                            Leaves::Page { collector, .. } => {
                                if collector.push(&key, &value).is_break() {
                                    collector.put(&self.shared);
                                    *leaves = Leaves::Nothing;
                                }
                            }
                        }
                        return Some(Ok((key, value)));
                    }
                    Some(Err(error)) => {
                        self.current = Current::Ended;
                        return Some(Err(error));
                    }
                    None => {
                        let leaves = std::mem::replace(leaves, Leaves::Nothing);
                        self.leave_behind(leaves);
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
