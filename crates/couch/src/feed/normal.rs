//! The `normal` feed: reports the existing changes while it reads the log.

use super::Feed;
use super::parameters::Patience;
use crate::error::Result;
use crate::http::{Flow, Response, RowWriter};
use crate::sequence::Since;
use diwan_kv::Direction;
use diwan_store::{ChangeRow, ReadView, Revision};
use std::io::Write;
use std::time::{Duration, Instant};

/// How many changes are read at once.
const BATCH: usize = 512;
/// The same with `include_docs`, where few rows fill a chunk.
const DOCUMENTS: usize = 64;
/// The limit up to which the remaining changes are counted for `pending`.
const MOST_COUNTED: u64 = 100_000;

pub(super) fn answer(feed: Feed) -> Result<Response> {
    let mut writer = Writer::new(feed);
    Ok(Response::rows(move |out| writer.write(out)))
}

struct Writer {
    feed: Feed,
    /// The last sequence that the feed reports. Without it, a slow client of a busy database would never reach the
    /// end.
    end: u64,
    /// The position in the log, ascending or descending.
    at: u64,
    /// The remaining rows of a feed with `_doc_ids`.
    found: Option<std::vec::IntoIter<ChangeRow>>,
    /// Whether the opening of the JSON object has been written.
    begun: bool,
    /// How many rows the limit still allows.
    left: u64,
    written: u64,
    /// The sequence of the last row.
    last: u64,
    /// The heartbeat interval: a client whose filter rejects many changes is sent newlines meanwhile.
    beat: Option<Duration>,
    last_sent: Instant,
}

impl Writer {
    fn new(feed: Feed) -> Writer {
        let beat = match feed.parameters.patience {
            Patience::Heartbeat(beat) => Some(beat),
            Patience::Timeout(_) => None,
        };
        let end = feed.collection.last_sequence();
        let since = match feed.parameters.since {
            Since::Sequence(since) => since,
            Since::Now => end,
        };
        let left = feed.parameters.limit;
        let at = if feed.parameters.descending { end.saturating_add(1) } else { since };
        let last = if feed.parameters.descending { end } else { since.min(end) };
        let found = None;
        Writer { feed, end, at, found, begun: false, left, written: 0, last, beat, last_sent: Instant::now() }
    }

    /// Writes rows until the buffer is full.
    fn write(&mut self, out: &mut RowWriter) -> Result<Flow> {
        if !std::mem::replace(&mut self.begun, true) {
            out.write_all(b"{\"results\":[\n")?;
        }
        self.last_sent = Instant::now();
        let by_ids = self.feed.filter.ids().is_some();
        let pending = match (by_ids, self.feed.parameters.descending) {
            (true, _) => self.write_ids(out)?,
            (false, true) => self.write_descending(out)?,
            (false, false) => self.write_ascending(out)?,
        };
        let Some(pending) = pending else { return Ok(Flow::More) };
        let buffer = out.buffer();
        buffer.extend_from_slice(b"\n],\n\"last_seq\":");
        self.feed.writing.sequences.write(buffer, self.last);
        writeln!(buffer, ",\"pending\":{pending}}}")?;
        Ok(Flow::Done)
    }

    /// Returns the number of remaining changes when the feed is complete, `None` when the buffer is full.
    fn write_ascending(&mut self, out: &mut RowWriter) -> Result<Option<u64>> {
        while self.at < self.end && self.left > 0 {
            let batch = self.batch();
            let rows = self.feed.collection.changes(self.at, batch, Direction::Forward)?;
            let view = self.feed.needs_view().then(|| out.view(&self.feed.collection));
            for row in &rows {
                // A change made after the feed started: everything up to `end` has been reported.
                if row.sequence > self.end {
                    self.last = self.end;
                    return Ok(Some(0));
                }
                self.at = row.sequence;
                self.row(out, view.as_deref(), row)?;
                if self.left == 0 {
                    break;
                }
                if out.is_full() {
                    return Ok(None);
                }
            }
            // The log is exhausted; sequences without a row may remain up to `end`.
            if rows.len() < batch && self.left > 0 {
                self.at = self.end;
            }
        }
        self.last = self.last.max(self.at);
        Ok(Some(match self.at < self.end {
            true => self.feed.collection.view().changes_left(self.at, MOST_COUNTED)?,
            false => 0,
        }))
    }

    fn write_descending(&mut self, out: &mut RowWriter) -> Result<Option<u64>> {
        while self.left > 0 {
            let batch = self.batch();
            let rows = self.feed.collection.changes(self.at, batch, Direction::Reverse)?;
            let view = self.feed.needs_view().then(|| out.view(&self.feed.collection));
            for row in &rows {
                self.at = row.sequence;
                self.last = row.sequence;
                self.row(out, view.as_deref(), row)?;
                if self.left == 0 {
                    break;
                }
                if out.is_full() {
                    return Ok(None);
                }
            }
            if rows.len() < batch {
                break;
            }
        }
        Ok(Some(0))
    }

    /// Looks up the wanted documents one by one instead of reading the whole log.
    fn write_ids(&mut self, out: &mut RowWriter) -> Result<Option<u64>> {
        let view = out.view(&self.feed.collection);
        let mut rows = match self.found.take() {
            Some(rows) => rows,
            None => self.find_ids(&view)?.into_iter(),
        };
        while self.left > 0 {
            let Some(row) = rows.next() else { break };
            self.last = row.sequence;
            self.row(out, Some(&view), &row)?;
            if out.is_full() {
                self.found = Some(rows);
                return Ok(None);
            }
        }
        let pending = rows.len() as u64;
        if pending == 0 {
            self.last = self.end;
        }
        Ok(Some(pending))
    }

    fn find_ids(&self, view: &ReadView) -> Result<Vec<ChangeRow>> {
        let descending = self.feed.parameters.descending;
        let mut rows = Vec::new();
        for id in self.feed.filter.ids().into_iter().flatten() {
            if let Some(row) = current_row(view, id)?
                && row.sequence <= self.end
                && (row.sequence > self.at || descending)
            {
                rows.push(row);
            }
        }
        rows.sort_unstable_by_key(|row| row.sequence);
        if descending {
            rows.reverse();
        }
        Ok(rows)
    }

    /// How many changes to read next.
    fn batch(&self) -> usize {
        let most = if self.feed.parameters.include_docs { DOCUMENTS } else { BATCH };
        match self.feed.filter.is_open() {
            true => usize::try_from(self.left).unwrap_or(usize::MAX).min(most),
            false => most,
        }
    }

    fn row(&mut self, out: &mut RowWriter, view: Option<&ReadView>, row: &ChangeRow) -> Result<()> {
        let Some(leaves) = self.feed.filter.apply(view, row)? else {
            if self.beat.is_some_and(|beat| self.last_sent.elapsed() >= beat) {
                out.buffer().push(b'\n');
                out.send_now();
            }
            return Ok(());
        };
        if self.written > 0 {
            out.buffer().extend_from_slice(b",\n");
        }
        self.written += 1;
        let with_sequence = self.feed.parameters.has_sequence(self.left);
        self.left -= 1;
        self.feed.writing.write(out, view, row, &leaves, with_sequence)
    }
}

impl Feed {
    /// Whether rows need the documents.
    pub(super) fn needs_view(&self) -> bool {
        self.parameters.include_docs || self.filter.needs_documents()
    }
}

/// Returns the change row of a document's current state.
pub(super) fn current_row(view: &ReadView, id: &[u8]) -> Result<Option<ChangeRow>> {
    let Some(found) = view.document(id)? else { return Ok(None) };
    let leaves: Vec<Revision> = match found.has_branches {
        true => view
            .tree(id)?
            .map_or_else(Vec::new, |tree| tree.leaves().iter().map(|leaf| leaf.revision).collect()),
        false => vec![found.revision],
    };
    Ok(Some(ChangeRow {
        sequence: found.sequence,
        id: id.to_vec(),
        id_value: found.id().to_owned(),
        revision: found.revision,
        deleted: found.deleted,
        leaves,
    }))
}
