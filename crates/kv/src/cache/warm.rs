//! Warming: once nothing has been written for a while, what was written last comes into the cache before anybody asks for it.
//!
//! Who loads documents reads them next, and the first read of each would enter the engine. Only room that nothing else uses is
//! filled, a slice at a time: between two slices others get the processor, and what was written since is heeded.

use super::fill;
use super::pages::Pages;
use super::reader::{Rest, Shared};
use crate::ticker::Ticker;
use crate::{Bytes, Engine, Result, Space};
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(250);
/// After so many ticks without a commit it begins: later than settling, so that tables are read, not memory.
const IDLE: u32 = 6;
/// So many pages are made at once, which takes some ten milliseconds, and so long others go first.
const SLICE_PAGES: usize = 64;
const PAUSE: Duration = Duration::from_millis(10);

/// What has been written since it was warmed: of each space the interval that holds it all.
pub(super) type Written = [Option<Rest>; Space::ALL.len()];

/// What is still to be read in.
pub(super) struct Warming<E> {
    engine: Weak<E>,
    pages: Arc<Pages>,
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

    /// Warms from now on in a thread of its own.
    pub fn start(mut self) -> Result<Ticker> {
        Ticker::start("kv-warm", TICK, move || self.tick())
    }

    /// Looks whether commits have come, and reads a slice in when none have for long enough; returns when to look again.
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

    /// Reads in a slice of what was written; returns whether there is more.
    pub fn warm_slice(&mut self, engine: &E) -> bool {
        self.pages.take_written(&mut self.left);
        let Some(at) = self.left.iter().position(Option::is_some) else { return false };
        let moment = self.pages.moment();
        let shared = Shared { inner: engine.snapshot(), pages: self.pages.clone(), moment };
        if let Some(rest) = &mut self.left[at]
            && !matches!(warm(&shared, Space::ALL[at], rest), Ok(ControlFlow::Continue(())))
        {
            // It has all been read, or there is no more room, or it cannot be read: that is for those who ask for it.
            self.left[at] = None;
        }
        self.left.iter().any(Option::is_some)
    }
}

/// Makes pages of a slice of an interval, which begins behind it afterwards; breaks at the end of the interval, or of the room.
fn warm(shared: &Shared, space: Space, rest: &mut Rest) -> Result<ControlFlow<()>> {
    let pages = &shared.pages;
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
        shared.inner.visit(space, part.range(), &mut |key, value| {
            if read >= slice {
                next = Some(Bytes::from(key));
                return ControlFlow::Break(());
            }
            read += key.len() + value.len();
            let full = fill::pack(pages, &mut packer, key, value);
            room = full.is_none_or(|page| pages.fill(space, page, shared.moment));
            if room { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let high = next.or(part.to);
        let last = packer.cut(high.clone());
        room = room && (last.is_void() || pages.fill(space, last, shared.moment));
        match high {
            Some(high) if room => rest.from = high,
            _ => return Ok(ControlFlow::Break(())),
        }
    }
    Ok(ControlFlow::Continue(()))
}
