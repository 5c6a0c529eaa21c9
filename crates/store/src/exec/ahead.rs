//! Reading ahead: a scan with few matches among many documents finds some matches before they are requested.
//!
//! Copying each document out of the engine to match it costs more than the match. So if few documents match, the scan
//! matches them in the engine's memory and copies only the matches, some of them ahead. Over a large collection all
//! cores do so, each on a part of the key range at a time. The matches ahead are bounded. They are dropped when the
//! scan is suspended, and found again from the last requested match.

use super::parallel::{PARALLEL_FROM, cores, on_all_cores};
use super::records::visit_records;
use super::scan::ScanStats;
use crate::collection::{ReadView, StoredDocument};
use crate::error::{Error, Result};
use diwan_kv::{Bytes, KeyRange, Space};
use diwan_query::filter::Filter;
use diwan_query::{Interrupt, MemoryPool, Reservation};
use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

/// How many matches one core searches for at most. It begins with one and doubles the number each time.
const MOST_MATCHES: usize = 512;
/// How many documents one core reads before the others join.
const ALONE: u64 = 4096;
/// The average number of documents of a part, and the greatest number of parts.
const PART: u64 = 4096;
const MOST_DIVIDED: u64 = 1024;
/// How many parts each core reads at a time at most. It also begins with one.
const MOST_PARTS: usize = 4;
/// How many bytes of matches a part buffers before it waits until they are requested.
const KEPT_BYTES: usize = 256 << 10;

/// A match.
pub(super) struct Match {
    pub key: Bytes,
    pub document: StoredDocument,
    /// How many documents were read to find it, itself included, since the match before.
    read: u64,
}

/// The matches of a range of records.
pub(super) struct Ahead {
    /// In the keys' order.
    parts: VecDeque<Part>,
    /// How many matches one core searches for next.
    goal: usize,
    /// How many documents one core has read.
    read: u64,
    /// How many parts each core reads next, once the range has been divided among them.
    parts_each: Option<usize>,
    /// For the matches that the parts keep.
    reservation: Reservation,
}

/// The limits of one step of reading ahead.
struct Most {
    matches: usize,
    documents: u64,
}

impl Ahead {
    /// Reads the matches of a range.
    pub fn new(range: KeyRange) -> Ahead {
        let reservation = MemoryPool::shared().reservation(true);
        Ahead { parts: VecDeque::from([Part::new(range)]), goal: 1, read: 0, parts_each: None, reservation }
    }

    /// The next match, or `None` at the end. Adds the documents read for it to `stats`.
    pub fn next(
        &mut self,
        view: &ReadView,
        filter: &Filter,
        stats: &mut ScanStats,
        interrupt: &Interrupt,
    ) -> Result<Option<Match>> {
        while let Some(part) = self.parts.front_mut() {
            if let Some(found) = part.found.pop_front() {
                stats.docs_examined += found.read;
                return Ok(Some(found));
            }
            stats.docs_examined += std::mem::take(&mut part.read);
            if let Some(failure) = part.failure.take() {
                return Err(failure);
            }
            if part.rest.is_none() {
                self.parts.pop_front();
            } else {
                interrupt.check()?;
                self.read_on(view, filter, interrupt)?;
            }
        }
        Ok(None)
    }

    fn read_on(&mut self, view: &ReadView, filter: &Filter, interrupt: &Interrupt) -> Result<()> {
        if self.parts_each.is_none() && self.read >= ALONE {
            self.divide(view)?;
        }
        if let Some(parts_each) = &mut self.parts_each {
            if !self.reservation.cover(cores() * *parts_each * KEPT_BYTES) {
                *parts_each = 1;
            }
            let most = Most { matches: usize::MAX, documents: u64::MAX };
            let waiting = self.parts.iter_mut().take(cores() * *parts_each).filter(|part| part.is_waiting());
            let waiting: Vec<&mut Part> = waiting.collect();
            *parts_each = MOST_PARTS.min(*parts_each * 2);
            on_all_cores(waiting.into_iter(), |part| {
                part.read_on(view, filter, &most, interrupt);
                Ok(())
            })
        } else if let Some(part) = self.parts.front_mut() {
            let most = Most { matches: self.goal, documents: ALONE };
            self.read += part.read_on(view, filter, &most, interrupt);
            self.goal = MOST_MATCHES.min(self.goal * 2);
            Ok(())
        } else {
            Ok(())
        }
    }

    /// Divides the rest of the range among the cores, if the rest is large enough.
    fn divide(&mut self, view: &ReadView) -> Result<()> {
        let left = view.collection().count().saturating_sub(self.read);
        if cores() == 1 || left < PARALLEL_FROM {
            return Ok(());
        }
        let Some(rest) = self.parts.pop_front().and_then(|part| part.rest) else { return Ok(()) };
        let parts = (left / PART).min(MOST_DIVIDED) as usize;
        let parts = view.snapshot().split(Space::Records, rest, parts)?;
        self.parts = parts.into_iter().map(Part::new).collect();
        self.parts_each = Some(1);
        Ok(())
    }
}

/// A part of the range.
struct Part {
    /// The keys that have not been read.
    rest: Option<KeyRange>,
    found: VecDeque<Match>,
    /// How many documents were read since the last match that was found.
    read: u64,
    /// The error that ended the part, after the matches found.
    failure: Option<Error>,
}

impl Part {
    fn new(range: KeyRange) -> Part {
        Part { rest: Some(range), found: VecDeque::new(), read: 0, failure: None }
    }

    /// Whether the part must be read further to find a match.
    fn is_waiting(&self) -> bool {
        self.found.is_empty() && self.failure.is_none() && self.rest.is_some()
    }

    /// Reads further, up to the limits. Returns how many documents were read.
    fn read_on(&mut self, view: &ReadView, filter: &Filter, most: &Most, interrupt: &Interrupt) -> u64 {
        let Some(range) = self.rest.take() else { return 0 };
        let (mut documents, mut bytes) = (0, 0);
        let mut last = None;
        let (found, read) = (&mut self.found, &mut self.read);
        let visited = visit_records(view, filter, range.clone(), interrupt, |key, value, matches| {
            documents += 1;
            *read += 1;
            // The record is valid, since the filter has just read its document.
            if matches && let Ok(document) = StoredDocument::new(value.into()) {
                bytes += value.len();
                found.push_back(Match { key: key.into(), document, read: std::mem::take(read) });
            }
            if documents < most.documents && found.len() < most.matches && bytes < KEPT_BYTES {
                return ControlFlow::Continue(());
            }
            last = Some(Bytes::from(key));
            ControlFlow::Break(())
        });
        match visited {
            Ok(()) => self.rest = last.map(|last| KeyRange::new(Bound::Excluded(last), range.end)),
            Err(failure) => self.failure = Some(failure),
        }
        documents
    }
}
