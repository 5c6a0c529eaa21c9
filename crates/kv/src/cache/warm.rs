//! Warming: once nothing has been written for a while, recent writes are read into the cache.
//!
//! Documents are often read after they are loaded, and the first read of each would enter the engine. Warming fills only
//! free room. It works in slices: between two slices other threads get the CPU, and new writes are noticed.

use super::fill::{self, Source};
use super::interval::Interval;
use super::pages::Pages;
use super::recent::Written;
use crate::ticker::Ticker;
use crate::{Bytes, Engine, Result, Space};
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(250);
/// Warming begins after so many ticks without a commit: later than settling, so that it reads tables, not memtables.
const IDLE: u32 = 6;
/// The number of pages of a slice, which takes about ten milliseconds, and the pause after it.
const SLICE_PAGES: usize = 64;
const PAUSE: Duration = Duration::from_millis(10);

/// The state of warming.
pub(super) struct Warming<E> {
    engine: Weak<E>,
    pages: Arc<Pages>,
    /// The intervals that are still to be read.
    left: Written,
    idle: u32,
    /// How many commits there had been at the last tick.
    commits: u64,
}

impl<E: Engine + 'static> Warming<E> {
    pub fn new(engine: &Arc<E>, pages: &Arc<Pages>) -> Self {
        let (engine, pages) = (Arc::downgrade(engine), pages.clone());
        Self { engine, pages, left: Written::default(), idle: 0, commits: 0 }
    }

    /// Starts warming in a thread of its own.
    pub fn start(mut self) -> Result<Ticker> {
        Ticker::start("kv-warm", TICK, move || self.tick())
    }

    /// Reads a slice into the cache if no commit has come for long enough. Returns the time until the next check.
    fn tick(&mut self) -> Option<Duration> {
        let engine = self.engine.upgrade()?;
        let commits = self.pages.commits();
        self.idle = if commits == self.commits { self.idle.saturating_add(1) } else { 0 };
        self.commits = commits;
        if self.idle < IDLE {
            return Some(TICK);
        }
        Some(if self.warm_slice(&*engine) { PAUSE } else { TICK })
    }

    /// Reads a slice of recent writes into the cache. Returns whether there is more.
    pub fn warm_slice(&mut self, engine: &E) -> bool {
        self.pages.take_written(&mut self.left);
        let Some(at) = self.left.iter().position(Option::is_some) else { return false };
        let moment = self.pages.moment();
        let source = Source { inner: engine.snapshot(), pages: self.pages.clone(), moment };
        if let Some(rest) = &mut self.left[at]
            && !matches!(warm(&source, Space::ALL[at], rest), Ok(ControlFlow::Continue(())))
        {
            // Everything has been read, or there is no more room, or reading failed, which the next read will report.
            self.left[at] = None;
        }
        self.left.iter().any(Option::is_some)
    }
}

/// Builds pages of the first slice of an interval and removes the slice from it. Breaks at the end of the interval or when
/// there is no more room.
fn warm(source: &Source, space: Space, rest: &mut Interval) -> Result<ControlFlow<()>> {
    let pages = &source.pages;
    let (mut read, slice) = (0, SLICE_PAGES * pages.page_bytes());
    while read < slice {
        let Some((from, end)) = pages.gap_from(space, &rest.from) else { return Ok(ControlFlow::Break(())) };
        rest.from = from;
        let part = rest.up_to(end.as_ref());
        let Some(mut packer) = pages.packer(part.from.clone()).filter(|_| !part.is_empty()) else {
            return Ok(ControlFlow::Break(()));
        };
        let mut next = None;
        let mut room = true;
        source.inner.visit(space, part.range(), &mut |key, value| {
            if read >= slice {
                next = Some(Bytes::from(key));
                return ControlFlow::Break(());
            }
            read += key.len() + value.len();
            let full = fill::pack(pages, &mut packer, key, value);
            room = full.is_none_or(|page| pages.fill(space, page, source.moment));
            if room { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let high = next.or(part.to);
        let last = packer.cut(high.clone());
        room = room && (last.is_void() || pages.fill(space, last, source.moment));
        match high {
            Some(high) if room => rest.from = high,
            _ => return Ok(ControlFlow::Break(())),
        }
    }
    Ok(ControlFlow::Continue(()))
}
