//! Changes made ready, and their commit: the only place that gives out sequences.

use super::{Collection, Schema, document::id_key, entries::natural_key, sequence::State};
use crate::change::{Change, ChangeKind};
use crate::clock;
use crate::error::Result;
use crate::keys::{self, Key};
use crate::record::{Header, Marks, Record, Tombstone};
use crate::revision::Revision;
use diwan_kv::{Batch, Bytes, CommitId, Space};
use diwan_value::{Doc, Value};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

/// What is stored of a document before a change.
pub(super) enum Current {
    /// Nothing.
    Absent,
    /// A record.
    Live(Bytes),
    /// A tombstone.
    Gone(Bytes),
}

/// The same, read.
pub(super) enum Before<'a> {
    /// It was never there, or nothing remembers it.
    Absent,
    Live(Record<'a>),
    Gone(Tombstone<'a>),
}

impl Current {
    pub fn read(&self) -> Result<Before<'_>> {
        Ok(match self {
            Current::Absent => Before::Absent,
            Current::Live(bytes) => Before::Live(Record::parse(bytes)?),
            Current::Gone(bytes) => Before::Gone(Tombstone::parse(bytes)?),
        })
    }
}

/// What is stored of a document after a change.
pub(super) enum After<'a> {
    /// A record with this document (as BSON). The revision is `None` for a first one.
    Live { doc: Cow<'a, [u8]>, revision: Option<Revision>, marks: Marks, attachments: Cow<'a, [u8]> },
    /// A tombstone.
    Gone { doc: Option<Cow<'a, [u8]>>, revision: Revision, marks: Marks, attachments: Cow<'a, [u8]> },
    /// A tombstone that only keeps the change.
    Purged,
}

impl After<'_> {
    /// The document that readers see.
    pub fn doc(&self) -> Option<Doc<'_>> {
        match self {
            After::Live { doc, .. } => Some(Doc::trusted(doc)),
            _ => None,
        }
    }
}

/// A change made ready: all but the sequence is known, and what does not depend on it is in the batch.
pub(super) struct Staged<'a> {
    id: &'a [u8],
    old: Option<OldState>,
    after: After<'a>,
}

/// What a change must know of what it replaces.
struct OldState {
    sequence: u64,
    kind: OldKind,
    position: Option<u64>,
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OldKind {
    Live,
    Deleted,
    Purged,
}

impl<'a> Staged<'a> {
    pub fn new(id: &'a [u8], before: &Before<'_>, after: After<'a>) -> Staged<'a> {
        let old = match before {
            Before::Absent => None,
            Before::Live(record) => Some(OldState {
                sequence: record.sequence,
                kind: OldKind::Live,
                position: record.position,
                bytes: record.doc.as_bytes().len(),
            }),
            Before::Gone(tombstone) => Some(OldState {
                sequence: tombstone.sequence,
                kind: if tombstone.is_purged() { OldKind::Purged } else { OldKind::Deleted },
                position: None,
                bytes: 0,
            }),
        };
        Staged { id, old, after }
    }
}

/// Whether an id, as key bytes, is a design document's.
fn is_design(id: &[u8]) -> bool {
    static RANGE: LazyLock<Option<Range<Vec<u8>>>> = LazyLock::new(|| {
        let key = |text| id_key(Value::String(text)).ok();
        Some(key("_design/")?..key("_design0")?)
    });
    RANGE.as_ref().is_some_and(|range| range.start.as_slice() <= id && id < range.end.as_slice())
}

impl Collection {
    /// What is stored of a document as of now; its lock must be held.
    pub(super) fn current(&self, id: &[u8]) -> Result<Current> {
        // An id above all that ever were is new without a look: most ids that drivers make are.
        if id > self.greatest_id.lock().as_slice() {
            return Ok(Current::Absent);
        }
        if let Some(bytes) = self.shared.engine.get(Space::Records, &Key::Record(self.id, id).bytes())? {
            return Ok(Current::Live(bytes));
        }
        self.current_tombstone(id)
    }

    /// The same where it is known that there is no record.
    pub(super) fn current_tombstone(&self, id: &[u8]) -> Result<Current> {
        if !self.sequence.may_have_tombstones() {
            return Ok(Current::Absent);
        }
        let bytes = self.shared.engine.get(Space::Revisions, &Key::Tombstone(self.id, id).bytes())?;
        Ok(bytes.map_or(Current::Absent, Current::Gone))
    }

    /// Notes, before anything is stored under an id, that there may be something.
    pub(super) fn note_id(&self, id: &[u8]) {
        let mut greatest = self.greatest_id.lock();
        if id > greatest.as_slice() {
            greatest.clear();
            greatest.extend_from_slice(id);
        }
    }

    /// Gives the changes their sequences and commits the batch.
    pub(super) fn commit(
        &self,
        schema: &Schema,
        mut batch: Batch,
        staged: Vec<Staged<'_>>,
    ) -> Result<CommitId> {
        let capped = schema.options.capped.is_some();
        let natural = keys::natural_prefix(self.id);
        let mut state = self.sequence.lock();
        let before = State { ..*state };
        let designs = staged.iter().any(|change| is_design(change.id));
        for change in staged {
            self.write_change(&mut state, &mut batch, change, capped, &natural);
        }
        match self.shared.engine.commit(batch) {
            Ok(commit) => {
                self.sequence.publish(&state);
                drop(state);
                if designs {
                    self.designs.fetch_add(1, Ordering::SeqCst);
                }
                self.changed();
                Ok(commit)
            }
            Err(error) => {
                *state = before;
                Err(error.into())
            }
        }
    }

    fn write_change(
        &self,
        state: &mut State,
        batch: &mut Batch,
        change: Staged<'_>,
        capped: bool,
        natural: &[u8],
    ) {
        state.last += 1;
        let Staged { id, old, after } = change;
        let was = old.as_ref().map(|old| old.kind);
        let mut position = None;
        if let Some(old) = &old {
            batch.delete(Space::Log, Key::Change(self.id, old.sequence).bytes());
            state.bytes = state.bytes.saturating_sub(old.bytes as u64);
            position = old.position;
        }
        match was {
            Some(OldKind::Live) => state.count = state.count.saturating_sub(1),
            Some(OldKind::Deleted) => state.deleted = state.deleted.saturating_sub(1),
            Some(OldKind::Purged) | None => {}
        }
        let (kind, tombstone) = match &after {
            After::Live { doc, revision, marks, attachments } => {
                state.count += 1;
                state.bytes += doc.len() as u64;
                let is_new = was != Some(OldKind::Live);
                if capped && is_new {
                    state.position += 1;
                    position = Some(state.position);
                    batch.put(Space::Indexes, natural_key(natural, state.position), id);
                }
                let header = Header {
                    sequence: state.last,
                    revision: *revision,
                    position,
                    marks: *marks,
                    attachments,
                };
                let value = header.encode(Doc::trusted(doc));
                batch.put(Space::Records, Key::Record(self.id, id).bytes(), value);
                if is_new && was.is_some() {
                    batch.delete(Space::Revisions, Key::Tombstone(self.id, id).bytes());
                }
                (if is_new { ChangeKind::Insert } else { ChangeKind::Update }, None)
            }
            After::Gone { doc, revision, marks, attachments } => {
                state.deleted += 1;
                let doc = doc.as_ref().map(|doc| Doc::trusted(doc));
                (ChangeKind::Delete, Some((*revision, *marks, attachments.as_ref(), doc)))
            }
            After::Purged => {
                let nothing = Revision { generation: 0, hash: [0; 16] };
                (ChangeKind::Purge, Some((nothing, Marks::default(), &[][..], None)))
            }
        };
        if let Some((revision, marks, attachments, doc)) = tombstone {
            if was == Some(OldKind::Live) {
                batch.delete(Space::Records, Key::Record(self.id, id).bytes());
                if let Some(position) = position {
                    batch.delete(Space::Indexes, natural_key(natural, position));
                }
            }
            let deleted_at = clock::now_seconds();
            let tombstone = Tombstone { sequence: state.last, revision, deleted_at, marks, attachments, doc };
            batch.put(Space::Revisions, Key::Tombstone(self.id, id).bytes(), tombstone.encode());
            state.tombstones = true;
        }
        let entry =
            Change { sequence: state.last, kind, count: state.count, deleted: Some(state.deleted), id };
        batch.put(Space::Log, Key::Change(self.id, state.last).bytes(), entry.encode());
    }
}
