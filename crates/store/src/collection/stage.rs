//! Staged changes and their commit: the only place that assigns sequences. The types of the steps before are explained
//! in [`document_state`](super::document_state).

use super::document::id_key;
use super::document_state::{DocumentState, NextState, RawState, StoredState};
use super::entries::natural_key;
use super::sequence::SequenceState;
use super::{Collection, Schema};
use crate::change::{Change, ChangeKind};
use crate::clock;
use crate::error::{Error, Result};
use crate::events::{Begun, DocumentChange, Draft};
use crate::keys::{self, CollectionId, Key};
use crate::record::{Header, Marks, Tombstone};
use crate::revision::Revision;
use diwan_kv::{Batch, CommitId, Direction, Engine, KeyRange, Space};
use diwan_value::{Doc, Value};
use parking_lot::{MappedMutexGuard, MutexGuard};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

/// A change that is ready to be committed. Its batch holds all writes that do not depend on the sequence.
pub(super) struct StagedChange<'a> {
    id: &'a [u8],
    replaced: Option<ReplacedState>,
    next: NextState<'a>,
    /// The event of the change, if the collection's changes are recorded and a reader sees a difference.
    event: Option<Draft>,
}

/// The facts about the replaced stored state that the commit needs.
struct ReplacedState {
    sequence: u64,
    kind: ReplacedKind,
    /// The position in a capped collection.
    position: Option<u64>,
    /// The size of the document.
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplacedKind {
    Live,
    Deleted,
    Purged,
}

impl<'a> StagedChange<'a> {
    pub(super) fn new(id: &'a [u8], stored: &StoredState<'_>, next: NextState<'a>) -> StagedChange<'a> {
        let replaced = match stored {
            DocumentState::Absent => None,
            DocumentState::Live(record) => Some(ReplacedState {
                sequence: record.sequence,
                kind: ReplacedKind::Live,
                position: record.position,
                bytes: record.doc.as_bytes().len(),
            }),
            DocumentState::Deleted(tombstone) => Some(ReplacedState {
                sequence: tombstone.sequence,
                kind: if tombstone.is_purged() { ReplacedKind::Purged } else { ReplacedKind::Deleted },
                position: None,
                bytes: 0,
            }),
        };
        StagedChange { id, replaced, next, event: None }
    }
}

/// Whether an id, as key bytes, is that of a design document.
pub(super) fn is_design(id: &[u8]) -> bool {
    DESIGNS.as_ref().is_some_and(|range| range.start.as_slice() <= id && id < range.end.as_slice())
}

/// The key bytes of the ids of design documents.
static DESIGNS: LazyLock<Option<Range<Vec<u8>>>> = LazyLock::new(|| {
    let key = |text| id_key(Value::String(text)).ok();
    Some(key("_design/")?..key("_design0")?)
});

impl Collection {
    /// A change that is ready to be committed, with its event if the collection's changes are recorded. `replaces` says
    /// whether an existing document is replaced and not updated in parts.
    pub(super) fn staged<'a>(
        &self,
        schema: &Schema,
        id: &'a [u8],
        stored: &StoredState<'_>,
        next: NextState<'a>,
        replaces: bool,
    ) -> StagedChange<'a> {
        let event = schema.recorded.then(|| {
            let (old, new) = (stored.record().map(|record| record.doc), next.doc());
            let change = DocumentChange { old, new, replaces, images: schema.options.images };
            Draft::of_document(&self.namespace(), &self.uuid(), &change)
        });
        StagedChange { event: event.flatten(), ..StagedChange::new(id, stored, next) }
    }

    /// Whether the collection has a design document.
    pub(crate) fn has_designs(self: &Arc<Self>) -> Result<bool> {
        let Some(range) = DESIGNS.as_ref() else { return Ok(false) };
        let range = KeyRange::half_open(range.start.clone(), range.end.clone());
        let mut found = false;
        self.view().documents(&range, Direction::Forward, &mut |_, _| {
            found = true;
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// The stored state of a document. The caller holds the document's lock.
    pub(super) fn current(&self, id: &[u8]) -> Result<RawState> {
        // An id above all earlier ones has no state, so no lookup is needed. Most ids that drivers generate are such.
        if id > self.greatest_id()?.as_slice() {
            return Ok(DocumentState::Absent);
        }
        if let Some(bytes) = self.shared.engine.get(Space::Records, &Key::Record(self.id, id).bytes())? {
            return Ok(DocumentState::Live(bytes));
        }
        self.current_tombstone(id)
    }

    /// The stored state of a document that has no record.
    pub(super) fn current_tombstone(&self, id: &[u8]) -> Result<RawState> {
        if !self.sequence.may_have_tombstones() {
            return Ok(DocumentState::Absent);
        }
        let bytes = self.shared.engine.get(Space::Revisions, &Key::Tombstone(self.id, id).bytes())?;
        Ok(bytes.map_or(DocumentState::Absent, DocumentState::Deleted))
    }

    /// Records an id before anything is stored under it, so that [`Collection::current`] looks it up from now on. The
    /// caller has read the document's state before.
    pub(super) fn note_id(&self, id: &[u8]) -> Result<()> {
        let mut greatest = self.greatest_id()?;
        if id > greatest.as_slice() {
            greatest.clear();
            greatest.extend_from_slice(id);
        }
        Ok(())
    }

    /// The greatest id that was ever inserted, read when it is first needed.
    fn greatest_id(&self) -> Result<MappedMutexGuard<'_, Vec<u8>>> {
        let mut greatest = self.greatest_id.lock();
        if greatest.is_none() {
            *greatest = Some(read_greatest_id(self.shared.engine.as_ref(), self.id)?);
        }
        Ok(MutexGuard::map(greatest, |greatest| greatest.get_or_insert_default()))
    }

    /// Assigns sequences to the changes and commits the batch with them.
    pub(super) fn commit(
        &self,
        schema: &Schema,
        mut batch: Batch,
        staged: Vec<StagedChange<'_>>,
    ) -> Result<CommitId> {
        let capped = schema.options.capped.is_some();
        let natural = keys::natural_prefix(self.id);
        let mut state = self.sequence.lock();
        check_known(&state, &staged)?;
        let before = SequenceState { ..*state };
        let designs = staged.iter().any(|change| is_design(change.id));
        let newest = staged.len().saturating_sub(1);
        let mut events = Vec::new();
        for (at, change) in staged.into_iter().enumerate() {
            events.extend(self.write_change(&mut state, &mut batch, change, capped, &natural, at == newest));
        }
        if self.shared.has_peers() {
            state.note(self.id, &mut batch);
        }
        // What is refused must not be in the transaction.
        let room = self.shared.inside.as_ref().map_or(Ok(()), |inside| inside.check_size(batch.bytes()));
        let begun = match room {
            Ok(()) => self.shared.events.begin_commit(self.shared.engine.as_ref(), batch, events),
            Err(refused) => Begun::Ended(Err(refused)),
        };
        let commit = match begun {
            Begun::Ended(Ok(commit)) => {
                self.sequence.publish(&state);
                drop(state);
                commit
            }
            Begun::Ended(Err(error)) => {
                *state = before;
                return Err(error);
            }
            // Others may take the next sequences meanwhile. If this fails, they fail, and the state is read anew.
            Begun::UnderWay(wait) => {
                let after = SequenceState { ..*state };
                drop(state);
                let commit = wait()?;
                self.sequence.publish_later(&after);
                commit
            }
        };
        if designs {
            self.designs.fetch_add(1, Ordering::SeqCst);
        }
        self.changed();
        Ok(commit)
    }

    /// Adds the writes of a change that depend on its sequence, and updates the counters. Returns the change's event.
    pub(super) fn write_change(
        &self,
        state: &mut SequenceState,
        batch: &mut Batch,
        change: StagedChange<'_>,
        capped: bool,
        natural: &[u8],
        is_newest: bool,
    ) -> Option<Draft> {
        state.last += 1;
        let StagedChange { id, replaced, next, event } = change;
        let was = replaced.as_ref().map(|replaced| replaced.kind);
        let mut position = None;
        // The log holds only the newest change of each document.
        if let Some(replaced) = &replaced {
            batch.delete(Space::Log, Key::Change(self.id, replaced.sequence).bytes());
            state.bytes = state.bytes.saturating_sub(replaced.bytes as u64);
            position = replaced.position;
        }
        match was {
            Some(ReplacedKind::Live) => state.count = state.count.saturating_sub(1),
            Some(ReplacedKind::Deleted) => state.deleted = state.deleted.saturating_sub(1),
            Some(ReplacedKind::Purged) | None => {}
        }
        // The record, or the fields of the tombstone that replaces it.
        let (kind, tombstone) = match &next {
            NextState::Live { doc, revision, marks, attachments } => {
                state.count += 1;
                state.bytes += doc.len() as u64;
                let is_new = was != Some(ReplacedKind::Live);
                // An update keeps the document's place in the order of insertion.
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
            NextState::Deleted { doc, revision, marks, attachments } => {
                state.deleted += 1;
                let doc = doc.as_ref().map(|doc| Doc::trusted(doc));
                (ChangeKind::Delete, Some((*revision, *marks, attachments.as_ref(), doc)))
            }
            NextState::Purged => {
                let nothing = Revision { generation: 0, hash: [0; 16] };
                (ChangeKind::Purge, Some((nothing, Marks::default(), &[][..], None)))
            }
        };
        if let Some((revision, marks, attachments, doc)) = tombstone {
            if was == Some(ReplacedKind::Live) {
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
        let entry = Change {
            sequence: state.last,
            kind,
            count: state.count,
            deleted: Some(state.deleted),
            bytes: is_newest.then_some(state.bytes),
            id,
        };
        batch.put(Space::Log, Key::Change(self.id, state.last).bytes(), entry.encode());
        event
    }
}

/// Fails if a change replaces what is newer than the sequence: another process has written it since this turn began.
fn check_known(state: &SequenceState, staged: &[StagedChange<'_>]) -> Result<()> {
    let newest =
        staged.iter().filter_map(|change| change.replaced.as_ref()).map(|replaced| replaced.sequence);
    match newest.max().is_some_and(|newest| newest > state.last) {
        true => Err(Error::Engine(diwan_kv::Error::Stale)),
        false => Ok(()),
    }
}

/// The greatest id that a document or a tombstone has.
fn read_greatest_id(engine: &dyn Engine, collection: CollectionId) -> Result<Vec<u8>> {
    let prefix = keys::collection_prefix(collection);
    let snapshot = engine.snapshot();
    let mut greatest = Vec::new();
    for space in [Space::Records, Space::Revisions] {
        let newest = snapshot.scan(space, KeyRange::prefix(&prefix), Direction::Reverse).next();
        if let Some((key, _)) = newest.transpose()? {
            // What is not a revision's key is still not below its id.
            let rest = &key[prefix.len()..];
            let id = keys::RevisionKey::split(rest).filter(|_| space == Space::Revisions);
            greatest = greatest.max(id.map_or(rest, |(id, _)| id).to_vec());
        }
    }
    Ok(greatest)
}
