//! Scans: the pairs of pages, and of the gaps between them, one part after another, in either direction.

use super::fill::{Collector, Filler, Progress, Source};
use super::interval::Interval;
use super::page::Page;
use super::pages::Found;
use super::visit::visit_page;
use crate::{Bytes, Direction, Pairs, Result, Space};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// A scan of an interval.
pub(super) struct Scan {
    source: Arc<Source>,
    space: Space,
    /// The part of the interval that follows the current part.
    rest: Interval,
    direction: Direction,
    current: Current,
}

/// Where the next pairs come from.
enum Current {
    Nothing,
    /// A page, with the places of its pairs that are still to come.
    Page(Arc<Page>, Range<usize>),
    /// The pairs of a page with marked keys, in the scan's order. The values of marked keys come from the engine.
    Pairs(std::vec::IntoIter<(Bytes, Bytes)>),
    Engine(Pairs, Making),
    Ended,
}

/// The pages that are built of the engine's pairs.
enum Making {
    Nothing,
    /// Pages of a forward scan, with the end of the part that is read, and the start of the next page.
    Pages {
        filler: Filler,
        to: Option<Bytes>,
        end: Option<Bytes>,
    },
    /// One page of a reverse scan, with the start of the part that is read.
    Page {
        collector: Collector,
        from: Bytes,
    },
}

impl Scan {
    pub fn new(source: &Arc<Source>, space: Space, interval: Interval, direction: Direction) -> Scan {
        Scan { source: source.clone(), space, rest: interval, direction, current: Current::Nothing }
    }

    /// Goes to the next page or gap; `false` at the end.
    fn advance(&mut self) -> Result<bool> {
        if self.rest.is_empty() {
            return Ok(false);
        }
        let forward = self.direction == Direction::Forward;
        let found = if forward {
            self.source.pages.find(self.space, &self.rest.from, self.source.moment)
        } else {
            self.source.pages.find_before(self.space, self.rest.to.as_deref(), self.source.moment)
        };
        let (next, end) = match found {
            Found::Page(page) => {
                let end = if forward { page.high.clone() } else { Some(page.low.clone()) };
                (self.page(page)?, end)
            }
            Found::Gap(end) => (self.gap(end.as_ref()), end),
            Found::TooNew(end) => {
                (Current::Engine(self.engine(&self.part(end.as_ref())), Making::Nothing), end)
            }
        };
        self.current = next;
        match end {
            Some(end) if forward => self.rest.from = end,
            Some(end) => self.rest.to = Some(end),
            // An interval that ends where it begins is empty.
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
        let _ = visit_page(&self.source, self.space, &page, &self.rest, &mut |key, value| {
            pairs.push((Bytes::from(key), Bytes::from(value)));
            ControlFlow::Continue(())
        })?;
        if self.direction == Direction::Reverse {
            pairs.reverse();
        }
        Ok(Current::Pairs(pairs.into_iter()))
    }

    /// The part of the rest that lies in a gap.
    fn part(&self, end: Option<&Bytes>) -> Interval {
        match self.direction {
            Direction::Forward => self.rest.up_to(end),
            Direction::Reverse => self.rest.beginning_at(end),
        }
    }

    fn engine(&self, part: &Interval) -> Pairs {
        self.source.inner.scan(self.space, part.range(), self.direction)
    }

    /// Starts to read a gap from the engine.
    fn gap(&self, end: Option<&Bytes>) -> Current {
        let part = self.part(end);
        let pairs = self.engine(&part);
        let making = match self.direction {
            Direction::Forward => {
                let filler = Filler::new(&self.source, self.space, &part, Progress::default());
                Making::Pages { filler, to: part.to, end: end.cloned() }
            }
            Direction::Reverse => match self.source.pages.missed() {
                Some(bytes) => {
                    Making::Page { collector: Collector::new(self.space, part.to, bytes), from: part.from }
                }
                None => Making::Nothing,
            },
        };
        Current::Engine(pairs, making)
    }

    /// Inserts the last page of the engine's pairs, which have been read to their end.
    fn put_made(&self, making: Making) {
        match making {
            Making::Nothing => {}
            Making::Pages { filler, to, end } => {
                filler.finish(&self.source, to, end);
            }
            Making::Page { collector, from } => collector.finish(&self.source, from),
        }
    }
}

/// A scan that is dropped early reads further to complete the page that it may insert.
impl Drop for Scan {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.current, Current::Ended) {
            Current::Engine(pairs, Making::Pages { filler, to, .. }) => {
                filler.read_on(&self.source, pairs, to);
            }
            Current::Engine(pairs, Making::Page { collector, from }) => {
                collector.read_on(&self.source, pairs, from);
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
                Current::Engine(pairs, making) => match pairs.next() {
                    Some(Ok((key, value))) => {
                        match making {
                            Making::Nothing => {}
                            Making::Pages { filler, .. } => filler.push(&self.source, &key, &value),
                            Making::Page { collector, .. } => {
                                if collector.push(&key, &value).is_break() {
                                    collector.put(&self.source);
                                    *making = Making::Nothing;
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
                        let making = std::mem::replace(making, Making::Nothing);
                        self.put_made(making);
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
