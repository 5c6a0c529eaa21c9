//! A scan: runs of rows, the next of which is requested while the present one is consumed.
//!
//! A run is bounded in rows and in bytes. The number of rows follows from the size of the rows so far; a value that is
//! far longer than those is left out of the run and read alone when its turn comes.
//! Invariant: `segments` is what no run so far has shown, in the order of the scan.

use crate::connection::{Limits, column};
use crate::error::{Answer, engine_error};
use crate::key::{HEAD, Segment, segments, successor};
use crate::snapshot::{READING, Transaction};
use crate::value::value_of;
use crate::wait::wait;
use diwan_kv::{Bytes, Direction, Error, KeyRange, Result, Space};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use tokio_postgres::Row;

/// About how many bytes a run has.
const RUN_BYTES: usize = 1 << 20;

/// The most bytes that a run has: no value in it is longer than its part of them.
const MOST_RUN_BYTES: usize = 8 << 20;

/// The most rows of a run.
const MOST_ROWS: usize = 4000;

/// A run has at most this many times the rows of the one before.
const GROWTH: usize = 4;

/// How many rows the first run has: a short query needs no more, and a chunk of an attachment is long.
fn first_rows(space: Space) -> usize {
    if space == Space::Attachments { 8 } else { 100 }
}

/// What a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Keys and values.
    Pairs,
    /// Keys alone; the values are shown as empty.
    Keys,
}

/// A run that has been requested.
struct Ahead {
    segment: Segment,
    limits: Limits,
    rows: Receiver<Answer<Vec<Row>>>,
}

/// A scan of a range.
pub(crate) struct Scan {
    transaction: Arc<Transaction>,
    space: Space,
    direction: Direction,
    scope: Scope,
    segments: VecDeque<Segment>,
    rows: Vec<Row>,
    at: usize,
    next_rows: usize,
    ahead: Option<Ahead>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Scan {
    pub fn new(
        transaction: Arc<Transaction>,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        scope: Scope,
    ) -> Scan {
        let mut segments = segments(range);
        if direction == Direction::Reverse {
            segments.make_contiguous().reverse();
        }
        Scan {
            transaction,
            space,
            direction,
            scope,
            segments,
            rows: Vec::new(),
            at: 0,
            next_rows: first_rows(space),
            ahead: None,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// The next pair; none at the end.
    pub fn next_pair(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.prepare()?;
        let Some(row) = self.rows.get(self.at) else { return Ok(None) };
        self.at += 1;
        let head: &[u8] = column(row, 0)?;
        let key = match column::<Option<&[u8]>>(row, 1)? {
            None => head,
            Some(tail) => {
                self.key.clear();
                self.key.extend_from_slice(head);
                self.key.extend_from_slice(tail);
                &self.key
            }
        };
        if self.scope == Scope::Keys {
            return Ok(Some((key, b"")));
        }
        let value = match column::<Option<&[u8]>>(row, 2)? {
            Some(stored) => value_of(stored, &mut self.value)?,
            None => {
                let found = self.transaction.get(self.space, key)?;
                let missing = || Error::Damaged("a value that a scan had found is missing".into());
                self.value = found.ok_or_else(missing)?.to_vec();
                &self.value
            }
        };
        Ok(Some((key, value)))
    }

    /// Sees to it that the next row is there, if there is one, and that the next run is on its way in time.
    fn prepare(&mut self) -> Result<()> {
        while self.at == self.rows.len() {
            let (segment, limits, rows) = match self.ahead.take() {
                // A runtime that has been shut down drops the task.
                Some(ahead) => (ahead.segment, ahead.limits, ahead.rows.recv().map_err(|_| Error::Closed)?),
                None => {
                    let Some(segment) = self.segments.pop_front() else { return Ok(()) };
                    let limits = self.limits();
                    let connection = self.transaction.connection()?;
                    let rows = wait(connection.run(self.space, &segment, self.direction, limits));
                    (segment, limits, rows)
                }
            };
            let rows = rows.map_err(|error| engine_error(READING, &error))?;
            self.accept(segment, limits, rows)?;
        }
        if self.ahead.is_none() && self.at * 2 >= self.rows.len() && self.at > 0 {
            self.ahead = self.request_ahead();
        }
        Ok(())
    }

    fn end(&mut self) {
        self.segments.clear();
        self.ahead = None;
        self.rows.clear();
        self.at = 0;
    }

    fn limits(&self) -> Limits {
        let longest = match self.scope {
            Scope::Pairs => (MOST_RUN_BYTES / self.next_rows) as i64,
            Scope::Keys => -1,
        };
        Limits { rows: self.next_rows, longest }
    }

    /// Requests the next run, in a task, which takes the answer off the connection for other reads.
    fn request_ahead(&mut self) -> Option<Ahead> {
        let segment = self.segments.pop_front()?;
        let limits = self.limits();
        let (tell, rows) = sync_channel(1);
        let (transaction, space, direction) = (self.transaction.clone(), self.space, self.direction);
        let asked = segment.clone();
        self.transaction.handle().spawn(async move {
            let found = match transaction.connection() {
                Ok(connection) => connection.run(space, &asked, direction, limits).await,
                Err(_) => return,
            };
            // The scan may have gone.
            let _ = tell.send(found);
        });
        Some(Ahead { segment, limits, rows })
    }

    /// Makes rows the present run, and what they leave of their segment the next ones.
    fn accept(&mut self, segment: Segment, limits: Limits, mut rows: Vec<Row>) -> Result<()> {
        if rows.len() >= limits.rows
            && let Some(last) = rows.last()
        {
            let rest = match &segment {
                Segment::Heads { .. } => {
                    let head = column::<&[u8]>(last, 0)?.to_vec();
                    let rest = beyond(&segment, &head, self.direction);
                    if head.len() == HEAD {
                        // There may be more keys with this head. They are read in the order of their tails.
                        while rows
                            .last()
                            .is_some_and(|row| column::<&[u8]>(row, 0).is_ok_and(|h| *h == *head))
                        {
                            rows.pop();
                        }
                        self.segments.push_front(rest);
                        Segment::Tails { head, from: Vec::new(), to: None }
                    } else {
                        rest
                    }
                }
                Segment::Tails { .. } => {
                    let tail: Option<&[u8]> = column(last, 1)?;
                    beyond(&segment, tail.unwrap_or_default(), self.direction)
                }
            };
            self.segments.push_front(rest);
        }
        if matches!(segment, Segment::Heads { .. }) {
            sort_groups(&mut rows, self.direction)?;
        }
        self.next_rows = next_rows(limits, &rows)?;
        self.rows = rows;
        self.at = 0;
        Ok(())
    }
}

/// What remains of a segment when its rows up to `last`, a head or a tail, have been read.
fn beyond(segment: &Segment, last: &[u8], direction: Direction) -> Segment {
    let mut rest = segment.clone();
    match (&mut rest, direction) {
        (Segment::Heads { from, .. } | Segment::Tails { from, .. }, Direction::Forward) => {
            *from = successor(last)
        }
        (Segment::Heads { to, .. }, Direction::Reverse) => *to = last.to_vec(),
        (Segment::Tails { to, .. }, Direction::Reverse) => *to = Some(last.to_vec()),
    }
    rest
}

/// Sorts the rows that share a long head by their tails.
fn sort_groups(rows: &mut [Row], direction: Direction) -> Result<()> {
    let mut start = 0;
    while start < rows.len() {
        let head: &[u8] = column(&rows[start], 0)?;
        if head.len() < HEAD {
            start += 1;
            continue;
        }
        let same =
            rows[start..].iter().take_while(|row| column::<&[u8]>(row, 0).is_ok_and(|other| other == head));
        let end = start + same.count();
        rows[start..end].sort_by(|a, b| {
            let tail = |row| column::<Option<&[u8]>>(row, 1).unwrap_or_default();
            let order = tail(a).cmp(&tail(b));
            if direction == Direction::Forward { order } else { order.reverse() }
        });
        start = end;
    }
    Ok(())
}

/// How many rows the next run may have, by the size of these.
fn next_rows(limits: Limits, rows: &[Row]) -> Result<usize> {
    let mut bytes = 0;
    for row in rows {
        // A value that was left out is about as long as it may be.
        let value = column::<Option<&[u8]>>(row, 2)?.map_or(limits.longest.max(0) as usize, <[u8]>::len);
        bytes += column::<&[u8]>(row, 0)?.len() + value;
    }
    let fitting = RUN_BYTES / (bytes / rows.len().max(1)).max(1);
    Ok(fitting.min(limits.rows * GROWTH).clamp(1, MOST_ROWS))
}

impl Iterator for Scan {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let owned = self.next_pair().map(|pair| pair.map(|(key, value)| (key.into(), value.into())));
        if owned.is_err() {
            self.end();
        }
        owned.transpose()
    }
}
