//! The rows of a change log: each changed document with its current revision.
//!
//! The reader first reads a run of the log, then the records of its documents. If their ids are close together, like
//! those of documents that were inserted in sequence, it scans the range that they span. A scan that meets too many
//! other documents is given up, and the remaining records are read one by one.

use crate::change::{Change, ChangeKind};
use crate::collection::{Collection, ReadView};
use crate::error::{Error, Result};
use crate::exec;
use crate::keys::{self, Key, read_number, write_number};
use crate::record::{Record, Tombstone};
use crate::revision::Revision;
use diwan_kv::{Bytes, Direction, KeyRange, Space};
use diwan_value::key;
use diwan_value::{ValueBuf, key::Decoder};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// How many entries of the log are read at a time.
const RUN: usize = 4096;
/// How many other documents a scan may meet before it is given up, plus one for each document of the run that it has
/// found.
const MOST_OTHERS: usize = 64;
/// From how many documents on starting a second thread pays.
const MANY: usize = 512;

/// The newest change of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeRow {
    /// Its place in the log.
    pub sequence: u64,
    /// The key bytes of the document's `_id`.
    pub id: Vec<u8>,
    /// The `_id`.
    pub id_value: ValueBuf,
    /// The winning revision.
    pub revision: Revision,
    /// Whether the winning revision is a deletion.
    pub deleted: bool,
    /// All leaves of the revision tree, the winner first; empty if the winner is the only leaf.
    pub leaves: Vec<Revision>,
}

/// A run of entries of the log. Their ids are concatenated in one buffer.
#[derive(Default)]
struct LogRun {
    ids: Vec<u8>,
    entries: Vec<LogEntry>,
    /// How many entries were read, including those that give no row.
    read: usize,
    /// The sequence of the last entry that was read.
    last: u64,
}

struct LogEntry {
    sequence: u64,
    deleted: bool,
    id: std::ops::Range<usize>,
}

impl LogRun {
    fn add(&mut self, prefix: &[u8], key: &[u8], value: &[u8]) -> Result<()> {
        let number = key.get(prefix.len()..).and_then(read_number);
        let (sequence, _) = number.ok_or_else(|| Error::Damaged(keys::describe(Space::Log, key)))?;
        let change = Change::parse(sequence, value)?;
        self.read += 1;
        self.last = sequence;
        let deleted = match change.kind {
            ChangeKind::Insert | ChangeKind::Update => false,
            ChangeKind::Delete => true,
            // A purged document has no revision, so it gives no row.
            ChangeKind::Purge => return Ok(()),
        };
        let start = self.ids.len();
        self.ids.extend_from_slice(change.id);
        self.entries.push(LogEntry { sequence, deleted, id: start..self.ids.len() });
        Ok(())
    }

    fn id(&self, at: usize) -> &[u8] {
        &self.ids[self.entries[at].id.clone()]
    }

    /// The indexes of the entries whose documents exist, in the order of their ids.
    fn live_by_id(&self) -> Vec<u32> {
        let mut live: Vec<u32> =
            (0..self.entries.len() as u32).filter(|&at| !self.entries[at as usize].deleted).collect();
        if !live.is_sorted_by_key(|&at| self.id(at as usize)) {
            live.sort_unstable_by_key(|&at| self.id(at as usize));
        }
        live
    }
}

impl Collection {
    /// The rows after sequence `since` in their order, or those before it in reverse order, up to `limit` of them. Each
    /// document has one row, for its newest change. Fewer than `limit` rows mean that the end of the log is reached.
    pub fn changes(
        self: &Arc<Self>,
        since: u64,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<ChangeRow>> {
        let mut rows = Vec::new();
        let mut at = since;
        let view = self.view();
        while rows.len() < limit {
            let most = RUN.min(limit - rows.len());
            let run = read_run(&view, at, most, direction)?;
            at = run.last;
            let is_last = run.read < most;
            rows_of(&view, &run, &mut rows)?;
            if is_last {
                break;
            }
        }
        Ok(rows)
    }
}

fn read_run(view: &ReadView, since: u64, most: usize, direction: Direction) -> Result<LogRun> {
    let collection = view.collection().id;
    let prefix = keys::collection_prefix(collection);
    let mut run = LogRun::default();
    match direction {
        Direction::Forward => {
            let mut failure = None;
            let range = keys::changes_after(collection, since);
            view.snapshot().visit(Space::Log, range, &mut |key, value| {
                failure = run.add(&prefix, key, value).err();
                if failure.is_none() && run.read < most {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            if let Some(error) = failure {
                return Err(error);
            }
        }
        Direction::Reverse => {
            let mut end = prefix.clone();
            write_number(&mut end, since);
            let range = KeyRange::new(Bound::Included(prefix.as_slice().into()), Bound::Excluded(end.into()));
            for pair in view.snapshot().scan(Space::Log, range, direction).take(most) {
                let (key, value) = pair?;
                run.add(&prefix, &key, &value)?;
            }
        }
    }
    Ok(run)
}

/// Adds the rows of a run.
fn rows_of(view: &ReadView, run: &LogRun, rows: &mut Vec<ChangeRow>) -> Result<()> {
    let live = run.live_by_id();
    let mut by_id = read_live(view, run, &live)?;
    // If the ids rise with the sequences and no document is deleted, the rows are in order already.
    if live.len() == run.entries.len() && live.is_sorted() {
        rows.append(&mut by_id);
        return Ok(());
    }
    let mut found: Vec<Option<ChangeRow>> = vec![None; run.entries.len()];
    for (at, row) in live.into_iter().zip(by_id) {
        found[at as usize] = Some(row);
    }
    for (at, row) in found.into_iter().enumerate() {
        match row {
            Some(row) => rows.push(row),
            None => rows.push(deleted_row(view, run, at)?),
        }
    }
    Ok(())
}

/// The rows of existing documents, in the order of their ids. If there are many, a second thread reads the second half:
/// reading documents and computing revisions takes most of the time.
fn read_live(view: &ReadView, run: &LogRun, live: &[u32]) -> Result<Vec<ChangeRow>> {
    if live.len() < MANY || exec::cores() == 1 {
        return read_part(view, run, live);
    }
    let (first, second) = live.split_at(live.len() / 2);
    std::thread::scope(|scope| {
        let helper = std::thread::Builder::new().name("diwan-feed".to_owned());
        let helper = helper.spawn_scoped(scope, || read_part(view, run, second));
        let mut rows = read_part(view, run, first)?;
        let mut others = match helper {
            Ok(helper) => helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
            Err(_) => read_part(view, run, second)?,
        };
        rows.append(&mut others);
        Ok(rows)
    })
}

fn read_part(view: &ReadView, run: &LogRun, live: &[u32]) -> Result<Vec<ChangeRow>> {
    let mut rows = Vec::with_capacity(live.len());
    let (Some(&first), Some(&last)) = (live.first(), live.last()) else { return Ok(rows) };
    let prefix = keys::collection_prefix(view.collection().id);
    let record_key = |at: u32| Bytes::from([prefix.as_slice(), run.id(at as usize)].concat());
    let mut others = 0;
    let mut failure = None;
    let range = KeyRange::closed(record_key(first), record_key(last));
    view.snapshot().visit(Space::Records, range, &mut |key, value| {
        let Some(&at) = live.get(rows.len()) else { return ControlFlow::Break(()) };
        if key.get(prefix.len()..) != Some(run.id(at as usize)) {
            others += 1;
            let is_given_up = others > MOST_OTHERS + rows.len();
            return if is_given_up { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        match live_row(view, run, at, value) {
            Ok(row) => {
                rows.push(row);
                ControlFlow::Continue(())
            }
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failure {
        return Err(error);
    }
    for &at in &live[rows.len()..] {
        let key = record_key(at);
        let value = view.snapshot().get(Space::Records, &key)?;
        let value = value.ok_or_else(|| Error::Damaged(keys::describe(Space::Records, &key)))?;
        rows.push(live_row(view, run, at, &value)?);
    }
    Ok(rows)
}

fn live_row(view: &ReadView, run: &LogRun, at: u32, value: &[u8]) -> Result<ChangeRow> {
    let record = Record::parse(value)?;
    let (id, sequence) = (run.id(at as usize), run.entries[at as usize].sequence);
    let id_value = record.doc.get("_id").filter(|_| record.sequence == sequence);
    let id_value = id_value.ok_or_else(|| Error::Damaged(format!("the document of change {sequence}")))?;
    Ok(ChangeRow {
        sequence,
        id: id.to_vec(),
        id_value: id_value.to_owned(),
        revision: record.revision(),
        deleted: false,
        leaves: if record.has_branches() { leaves(view, id)? } else { Vec::new() },
    })
}

fn deleted_row(view: &ReadView, run: &LogRun, at: usize) -> Result<ChangeRow> {
    let (id, sequence) = (run.id(at), run.entries[at].sequence);
    let damaged = || Error::Damaged(format!("the deleted document of change {sequence}"));
    let key = Key::Tombstone(view.collection().id, id).bytes();
    let value = view.snapshot().get(Space::Revisions, &key)?.ok_or_else(damaged)?;
    let tombstone = Tombstone::parse(&value)?;
    if tombstone.sequence != sequence {
        return Err(damaged());
    }
    let id_value = match tombstone.doc.and_then(|doc| doc.get("_id")) {
        Some(value) => value.to_owned(),
        // Without a stored `_id`, its key bytes restore it exactly.
        None => Decoder::new(id, &[]).next(key::Direction::Ascending).ok_or_else(damaged)?,
    };
    Ok(ChangeRow {
        sequence,
        id: id.to_vec(),
        id_value,
        revision: tombstone.revision,
        deleted: true,
        leaves: if tombstone.marks.branches { leaves(view, id)? } else { Vec::new() },
    })
}

/// The leaves of a document with conflicts.
fn leaves(view: &ReadView, id: &[u8]) -> Result<Vec<Revision>> {
    let tree = view.tree(id)?.unwrap_or_default();
    Ok(tree.leaves().iter().map(|leaf| leaf.revision).collect())
}
