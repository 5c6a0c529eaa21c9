//! Building pages of pairs that are read from the engine.

use super::interval::Interval;
use super::page::{Draft, Packer, Page};
use super::pages::{Moment, Pages};
use crate::{Bytes, Pairs, Snapshot, Space};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Where pairs come from and where pages go: an engine's snapshot, the pages, and a moment before the snapshot was taken.
pub(super) struct Source {
    pub inner: Box<dyn Snapshot>,
    pub pages: Arc<Pages>,
    pub moment: Moment,
}

/// After a page could not be inserted, a scan skips the bytes of so many pages before it builds another one: packing costs
/// time, and each attempt evicts few pages.
const PAUSE_PAGES: usize = 16;

/// Packs a pair, or leaves it out if it is too large. Returns the page that ends before it, if that is worth inserting.
pub(super) fn pack(pages: &Pages, packer: &mut Packer, key: &[u8], value: &[u8]) -> Option<Draft> {
    if packer.takes(key, value) {
        return packer.push(key, value);
    }
    let worthwhile = pages.worthwhile(packer.pending());
    Some(packer.skip(key)).filter(|_| worthwhile)
}

/// The pages that will replace a stale page.
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

/// How far a scan has come with building pages.
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    /// The scan has inserted pages, so even a small rest is worth a page.
    filled: bool,
    /// How many bytes are skipped before the next page.
    pause: usize,
}

/// Builds pages of the pairs that a scan reads from the engine.
pub(super) struct Filler {
    space: Space,
    /// `None` during a pause, and if the cache has no room for any page.
    packer: Option<Packer>,
    progress: Progress,
}

impl Filler {
    pub fn new(source: &Source, space: Space, part: &Interval, progress: Progress) -> Filler {
        let packer = if progress.pause == 0 { source.pages.packer(part.from.clone()) } else { None };
        Filler { space, packer, progress }
    }

    pub fn push(&mut self, source: &Source, key: &[u8], value: &[u8]) {
        if self.progress.pause > 0 {
            self.progress.pause = self.progress.pause.saturating_sub(key.len() + value.len());
            if self.progress.pause > 0 {
                return;
            }
            self.packer = source.pages.packer(key.into());
        }
        let Some(packer) = &mut self.packer else { return };
        if let Some(draft) = pack(&source.pages, packer, key, value) {
            self.put(source, draft);
        }
    }

    fn put(&mut self, source: &Source, draft: Draft) {
        if source.pages.put(self.space, vec![draft], None, source.moment) {
            self.progress.filled = true;
        } else {
            self.progress.pause = source.pages.page_bytes() * PAUSE_PAGES;
            self.packer = None;
        }
    }

    /// To be called when the part has been read to its end, `high`. The next page begins at `end`.
    pub fn finish(mut self, source: &Source, high: Option<Bytes>, end: Option<Bytes>) -> Progress {
        if let Some(mut packer) = self.packer.take() {
            if self.progress.filled || source.pages.worthwhile(packer.pending()) {
                self.put(source, packer.cut(high));
            } else if let Some(bytes) = source.pages.missed() {
                match high {
                    Some(from) => pack_on(source, self.space, packer, Interval { from, to: end }, bytes),
                    None => {
                        source.pages.put(self.space, vec![packer.cut(None)], None, source.moment);
                    }
                }
            }
        }
        self.progress
    }

    /// To be called when the scan has stopped within the part. `pairs` are the rest of the part.
    pub fn read_on(mut self, source: &Source, pairs: Pairs, high: Option<Bytes>) {
        let Some(mut packer) = self.packer.take() else { return };
        if self.progress.filled {
            return;
        }
        let Some(bytes) = source.pages.missed() else { return };
        let mut high = high;
        for pair in pairs {
            // The read that asks for the pair will report the failure.
            let Ok((key, value)) = pair else { return };
            if !packer.fits(&key, &value, bytes) {
                high = Some(key);
                break;
            }
            packer.push(&key, &value);
        }
        source.pages.put(self.space, vec![packer.cut(high)], None, source.moment);
    }
}

/// Inserts a page of at most so many bytes that begins at a key. There is no page between the key and `end`.
pub(super) fn from(source: &Source, space: Space, key: &[u8], end: Option<Bytes>, bytes: usize) {
    if let Some(packer) = source.pages.packer(key.into()) {
        pack_on(source, space, packer, Interval { from: key.into(), to: end }, bytes);
    }
}

/// Packs the engine's next pairs as long as they fit, and inserts the page.
fn pack_on(source: &Source, space: Space, mut packer: Packer, part: Interval, bytes: usize) {
    let mut high = None;
    let read = source.inner.visit(space, part.range(), &mut |key, value| {
        if !packer.fits(key, value, bytes) {
            high = Some(Bytes::from(key));
            return ControlFlow::Break(());
        }
        packer.push(key, value);
        ControlFlow::Continue(())
    });
    // The read that asks for these pairs will report a failure.
    if read.is_ok() {
        source.pages.put(space, vec![packer.cut(high.or(part.to))], None, source.moment);
    }
}

/// Builds one page of the first pairs that a reverse scan reads from the engine.
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

    /// Adds the next pair; breaks when no more fit.
    pub fn push(&mut self, key: &Bytes, value: &Bytes) -> ControlFlow<()> {
        self.bytes += key.len() + value.len();
        if self.bytes > self.most {
            return ControlFlow::Break(());
        }
        self.pairs.push((key.clone(), value.clone()));
        ControlFlow::Continue(())
    }

    /// Inserts the page, which begins at the key that was added last.
    pub fn put(&mut self, source: &Source) {
        let Some((low, _)) = self.pairs.last().cloned() else { return };
        self.put_from(source, low);
    }

    fn put_from(&mut self, source: &Source, low: Bytes) {
        let Some(mut packer) = source.pages.packer(low) else { return };
        for (key, value) in self.pairs.drain(..).rev() {
            packer.push(&key, &value);
        }
        source.pages.put(self.space, vec![packer.cut(self.high.take())], None, source.moment);
    }

    /// To be called when the part has been read to its first key.
    pub fn finish(mut self, source: &Source, from: Bytes) {
        self.put_from(source, from);
    }

    /// To be called when the scan has stopped within the part. `pairs` are the rest of the part.
    pub fn read_on(mut self, source: &Source, pairs: Pairs, from: Bytes) {
        for pair in pairs {
            // The read that asks for the pair will report the failure.
            let Ok((key, value)) = pair else { return };
            if self.push(&key, &value).is_break() {
                return self.put(source);
            }
        }
        self.finish(source, from);
    }
}
