//! Making pages of what is read from the engine.

use super::credit::Miss;
use super::page::{Draft, Packer, Page};
use super::pages::Pages;
use super::reader::{Rest, Shared};
use crate::{Bytes, Pairs, Space};
use std::ops::ControlFlow;

/// After a page found no room, so many pages' bytes pass by before a scan makes another one: packing costs, and what is kept
/// gives way slowly.
const PAUSE_PAGES: usize = 16;

/// Packs a pair, or leaves it out if it is too great. Returns the page that ends before it, if that is worth its place.
pub(super) fn pack(pages: &Pages, packer: &mut Packer, key: &[u8], value: &[u8]) -> Option<Draft> {
    if packer.takes(key, value) {
        return packer.push(key, value);
    }
    let worthwhile = pages.worthwhile(packer.pending());
    Some(packer.skip(key)).filter(|_| worthwhile)
}

/// The pages that will take the place of one.
pub(super) struct Fresh {
    packer: Packer,
    drafts: Vec<Draft>,
}

impl Fresh {
    pub fn new(pages: &Pages, stale: &Page) -> Option<Fresh> {
        Some(Fresh { packer: pages.packer(stale.low.clone())?, drafts: Vec::new() })
    }

    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        if self.packer.takes(key, value) {
            self.drafts.extend(self.packer.push(key, value));
        } else {
            let before = self.packer.skip(key);
            self.drafts.push(before);
        }
    }

    pub fn finish(mut self, high: Option<Bytes>) -> Vec<Draft> {
        let last = self.packer.cut(high);
        self.drafts.push(last);
        self.drafts
    }
}

/// How a scan has come along with making pages.
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    /// Pages have been made, so that the rest is worth a small one.
    filled: bool,
    /// How many bytes pass by before the next page.
    pause: usize,
}

/// Makes pages of what a scan reads from the engine.
pub(super) struct Filler {
    space: Space,
    /// `None` during a pause, and where no page is ever made.
    packer: Option<Packer>,
    progress: Progress,
}

impl Filler {
    pub fn new(shared: &Shared, space: Space, part: &Rest, progress: Progress) -> Filler {
        let packer = if progress.pause == 0 { shared.pages.packer(part.from.clone()) } else { None };
        Filler { space, packer, progress }
    }

    pub fn push(&mut self, shared: &Shared, key: &[u8], value: &[u8]) {
        if self.progress.pause > 0 {
            self.progress.pause = self.progress.pause.saturating_sub(key.len() + value.len());
            if self.progress.pause > 0 {
                return;
            }
            self.packer = shared.pages.packer(key.into());
        }
        let Some(packer) = &mut self.packer else { return };
        if let Some(draft) = pack(&shared.pages, packer, key, value) {
            self.put(shared, draft);
        }
    }

    fn put(&mut self, shared: &Shared, draft: Draft) {
        if shared.pages.put(self.space, vec![draft], None, shared.moment) {
            self.progress.filled = true;
        } else {
            self.progress.pause = shared.pages.page_bytes() * PAUSE_PAGES;
            self.packer = None;
        }
    }

    /// The part has been read to its end, which is `high`; the next page begins at `end`.
    pub fn finish(mut self, shared: &Shared, high: Option<Bytes>, end: Option<Bytes>) -> Progress {
        if let Some(mut packer) = self.packer.take() {
            if self.progress.filled || shared.pages.worthwhile(packer.pending()) {
                self.put(shared, packer.cut(high));
            } else if let Some(bytes) = shared.pages.missed(Miss::Scan) {
                match high {
                    Some(from) => pack_on(shared, self.space, packer, Rest { from, to: end }, bytes),
                    None => shared.pages.put_missed(self.space, packer.cut(None), shared.moment),
                }
            }
        }
        self.progress
    }

    /// The part has not been read to its end, and `pairs` are what is left of it.
    pub fn read_on(mut self, shared: &Shared, pairs: Pairs, high: Option<Bytes>) {
        let Some(mut packer) = self.packer.take() else { return };
        if self.progress.filled {
            return;
        }
        let Some(bytes) = shared.pages.missed(Miss::Scan) else { return };
        let mut high = high;
        for pair in pairs {
            // A failure is for those who ask for the pair.
            let Ok((key, value)) = pair else { return };
            if !packer.fits(&key, &value, bytes) {
                high = Some(key);
                break;
            }
            packer.push(&key, &value);
        }
        shared.pages.put_missed(self.space, packer.cut(high), shared.moment);
    }
}

/// Leaves a page of at most so many bytes that begins at a key, where there is none before `end`.
pub(super) fn from(shared: &Shared, space: Space, key: &[u8], end: Option<Bytes>, bytes: usize) {
    if let Some(packer) = shared.pages.packer(key.into()) {
        pack_on(shared, space, packer, Rest { from: key.into(), to: end }, bytes);
    }
}

/// Packs what the engine has next, as long as it fits, and leaves the page behind.
fn pack_on(shared: &Shared, space: Space, mut packer: Packer, part: Rest, bytes: usize) {
    let mut high = None;
    let read = shared.inner.visit(space, part.range(), &mut |key, value| {
        if !packer.fits(key, value, bytes) {
            high = Some(Bytes::from(key));
            return ControlFlow::Break(());
        }
        packer.push(key, value);
        ControlFlow::Continue(())
    });
    // A failure is for those who ask for these pairs.
    if read.is_ok() {
        shared.pages.put_missed(space, packer.cut(high.or(part.to)), shared.moment);
    }
}

/// Makes one page of the first pairs that a reverse scan reads from the engine.
pub(super) struct Collector {
    space: Space,
    high: Option<Bytes>,
    /// In the scan's order.
    pairs: Vec<(Bytes, Bytes)>,
    bytes: usize,
    most: usize,
}

impl Collector {
    /// A page of at most so many bytes that ends at `high`.
    pub fn new(space: Space, high: Option<Bytes>, most: usize) -> Collector {
        Collector { space, high, pairs: Vec::new(), bytes: 0, most }
    }

    /// The next pair; breaks when no more fit.
    pub fn push(&mut self, key: &Bytes, value: &Bytes) -> ControlFlow<()> {
        self.bytes += key.len() + value.len();
        if self.bytes > self.most {
            return ControlFlow::Break(());
        }
        self.pairs.push((key.clone(), value.clone()));
        ControlFlow::Continue(())
    }

    /// Leaves the page, which begins at the last key.
    pub fn put(&mut self, shared: &Shared) {
        let Some((low, _)) = self.pairs.last().cloned() else { return };
        self.put_from(shared, low);
    }

    fn put_from(&mut self, shared: &Shared, low: Bytes) {
        let Some(mut packer) = shared.pages.packer(low) else { return };
        for (key, value) in self.pairs.drain(..).rev() {
            packer.push(&key, &value);
        }
        shared.pages.put_missed(self.space, packer.cut(self.high.take()), shared.moment);
    }

    /// The part has been read to its end, where it begins.
    pub fn finish(mut self, shared: &Shared, from: Bytes) {
        self.put_from(shared, from);
    }

    /// The part has not been read to its end, and `pairs` are what is left of it.
    pub fn read_on(mut self, shared: &Shared, pairs: Pairs, from: Bytes) {
        for pair in pairs {
            // A failure is for those who ask for the pair.
            let Ok((key, value)) = pair else { return };
            if self.push(&key, &value).is_break() {
                return self.put(shared);
            }
        }
        self.finish(shared, from);
    }
}
