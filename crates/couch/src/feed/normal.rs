//! The feed that tells what there is, as the log is read.

use super::Feed;
use super::parameters::Patience;
use crate::error::Result;
use crate::http::{Response, RowWriter};
use crate::sequence::Since;
use diwan_kv::Direction;
use diwan_store::{ChangeRow, ReadView, Revision};
use std::io::Write;
use std::time::{Duration, Instant};

/// How many changes are read at a time.
const BATCH: usize = 2048;
/// How many changes that are left are counted.
const MOST_COUNTED: u64 = 100_000;

/// Answers with all changes at once.
pub(super) fn answer(feed: Feed) -> Result<Response> {
    match feed.filter.is_script() {
        true => Response::tried_rows(move |out| write(&feed, out)),
        false => Ok(Response::rows(move |out| write(&feed, out).map_err(|error| out.failure(error)))),
    }
}

fn write(feed: &Feed, out: &mut RowWriter) -> Result<()> {
    out.write_all(b"{\"results\":[\n")?;
    let beat = match feed.parameters.patience {
        Patience::Heartbeat(beat) => Some(beat),
        Patience::Timeout(_) => None,
    };
    let mut writer =
        Writer { feed, left: feed.parameters.limit, written: 0, beat, last_sent: Instant::now() };
    let told = writer.write(out)?;
    let buffer = out.buffer();
    buffer.extend_from_slice(b"\n],\n\"last_seq\":");
    feed.writing.sequences.write(buffer, told.last);
    writeln!(buffer, ",\"pending\":{}}}", told.pending)?;
    Ok(())
}

/// How far a feed came.
struct Told {
    last: u64,
    pending: u64,
}

struct Writer<'a> {
    feed: &'a Feed,
    left: u64,
    written: u64,
    /// How often a client that waits for what a filter lets through is shown that the feed lives.
    beat: Option<Duration>,
    last_sent: Instant,
}

impl Writer<'_> {
    fn write(&mut self, out: &mut RowWriter) -> Result<Told> {
        let collection = &self.feed.collection;
        // What comes later is not told: a feed that is read slowly must end all the same.
        let end = collection.last_sequence();
        let since = match self.feed.parameters.since {
            Since::Sequence(since) => since,
            Since::Now => end,
        };
        if self.feed.filter.ids().is_some() {
            return self.write_ids(out, since, end);
        }
        if self.feed.parameters.descending {
            return self.write_descending(out, end);
        }
        let needs_view = self.feed.needs_view();
        let mut at = since;
        while at < end && self.left > 0 {
            let batch = self.batch();
            let rows = collection.changes(at, batch, Direction::Forward)?;
            let view = needs_view.then(|| collection.view());
            for row in &rows {
                if row.sequence > end {
                    return Ok(Told { last: end, pending: 0 });
                }
                at = row.sequence;
                self.row(out, view.as_ref(), row)?;
                if self.left == 0 {
                    break;
                }
            }
            if rows.len() < batch && self.left > 0 {
                at = end;
            }
        }
        let pending = match at < end {
            true => collection.view().changes_left(at, MOST_COUNTED)?,
            false => 0,
        };
        Ok(Told { last: at.max(since.min(end)), pending })
    }

    fn write_descending(&mut self, out: &mut RowWriter, end: u64) -> Result<Told> {
        let collection = &self.feed.collection;
        let needs_view = self.feed.needs_view();
        let mut before = end.saturating_add(1);
        let mut last = end;
        while self.left > 0 {
            let batch = self.batch();
            let rows = collection.changes(before, batch, Direction::Reverse)?;
            let view = needs_view.then(|| collection.view());
            for row in &rows {
                before = row.sequence;
                last = row.sequence;
                self.row(out, view.as_ref(), row)?;
                if self.left == 0 {
                    break;
                }
            }
            if rows.len() < batch {
                break;
            }
        }
        Ok(Told { last, pending: 0 })
    }

    /// Looks a few documents up, instead of reading all changes.
    fn write_ids(&mut self, out: &mut RowWriter, since: u64, end: u64) -> Result<Told> {
        let view = self.feed.collection.view();
        let mut rows = Vec::new();
        for id in self.feed.filter.ids().into_iter().flatten() {
            if let Some(row) = current_row(&view, id)?
                && row.sequence <= end
                && (row.sequence > since || self.feed.parameters.descending)
            {
                rows.push(row);
            }
        }
        rows.sort_unstable_by_key(|row| row.sequence);
        if self.feed.parameters.descending {
            rows.reverse();
        }
        let mut last = end;
        let mut told = 0;
        for row in &rows {
            if self.left == 0 {
                break;
            }
            self.row(out, Some(&view), row)?;
            told += 1;
            last = row.sequence;
        }
        let pending = (rows.len() - told) as u64;
        Ok(Told { last: if pending == 0 { end } else { last }, pending })
    }

    /// How many changes are read next.
    fn batch(&self) -> usize {
        match self.feed.filter.is_open() {
            true => usize::try_from(self.left).unwrap_or(usize::MAX).min(BATCH),
            false => BATCH,
        }
    }

    fn row(&mut self, out: &mut RowWriter, view: Option<&ReadView>, row: &ChangeRow) -> Result<()> {
        let Some(leaves) = self.feed.filter.apply(view, row)? else {
            if self.beat.is_some_and(|beat| self.last_sent.elapsed() >= beat) {
                out.buffer().push(b'\n');
                out.flush()?;
                self.last_sent = Instant::now();
            }
            return Ok(());
        };
        if self.written > 0 {
            out.buffer().extend_from_slice(b",\n");
        }
        self.written += 1;
        let with_sequence = self.feed.parameters.has_sequence(self.left);
        self.left -= 1;
        self.feed.writing.write(out, view, row, &leaves, with_sequence)?;
        out.row_done()?;
        Ok(())
    }
}

impl Feed {
    /// Whether documents have to be read.
    pub(super) fn needs_view(&self) -> bool {
        self.parameters.include_docs || self.filter.needs_documents()
    }
}

/// The last change of one document.
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
