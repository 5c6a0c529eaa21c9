//! Expiry of tombstones that no replicator needs any longer, and of bodies of superseded revisions.
//!
//! Neither needs a scan of the collection. The change log has deletions in their order: expiry reads it from where the last
//! round ended to the first tombstone that stays, so it reads each change once. Superseded bodies have due keys
//! ([`Key::DueBody`]) in the order of time.

use super::Collection;
use super::sequence::SequenceState;
use crate::blob::{self, attachment};
use crate::change::{Change, ChangeKind};
use crate::error::Result;
use crate::keys::{self, Key, RevisionKey};
use crate::record::{Body, Tombstone};
use crate::revision::Revision;
use diwan_kv::{Batch, Bytes, KeyRange, Space};
use std::ops::{Bound, ControlFlow};

/// How many tombstones or bodies one batch removes.
const RUN: usize = 256;
/// How many changes are read at a time.
const CHANGES: usize = 4096;
/// A tombstone whose time is further in the future than this has the time of a wrong clock.
const CLOCK_ERROR_SECONDS: u64 = 24 * 60 * 60;
/// After how many changes the position of expiry is stored, so that a later start does not read those changes again.
const NOTE_EVERY: u64 = 10_000;

/// A superseded body, and its due key, which says when it was superseded.
pub(crate) struct DueBody {
    /// The bytes of its [`Key::DueBody`].
    pub due: Bytes,
    /// The key bytes of the document's `_id`.
    pub id: Vec<u8>,
    pub revision: Revision,
}

/// An interrupted round of tombstone expiry.
pub(super) struct Expiry {
    /// The sequence that the round has reached.
    position: u64,
    /// The sequence before the first tombstone with the time of a wrong clock. That tombstone stays until its time comes,
    /// and does not delay the others.
    held_back: u64,
}

/// A deletion in the change log: its sequence, and the key bytes of the document's id.
type Deletion = (u64, Vec<u8>);

impl Collection {
    /// Removes the bodies of superseded revisions. The bodies of the winner and of conflicts stay. Returns how many were
    /// removed.
    pub fn compact_bodies(&self) -> Result<u64> {
        let mut removed = 0;
        let mut range = KeyRange::prefix(&keys::collection_prefix(self.id));
        loop {
            let mut run = Vec::new();
            self.shared.engine.snapshot().visit(Space::Revisions, range.clone(), &mut |key, value| {
                if let Some((id, RevisionKey::Body(revision))) = self.revision_key(key)
                    && Body::parse(value).is_ok_and(|body| body.superseded_at.is_some())
                {
                    range.start = Bound::Excluded(Bytes::from(key));
                    run.push((id.to_vec(), revision));
                }
                if run.len() < RUN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            removed += self.remove_bodies(&run, u64::MAX, Batch::new())?;
            if run.len() < RUN {
                return Ok(removed);
            }
        }
    }

    /// Removes those of the bodies that were superseded before `oldest` (seconds since 1970), and the due keys of all of
    /// them: a body that was superseded again has a later due key.
    pub(crate) fn expire_bodies(&self, bodies: &[DueBody], oldest: u64) -> Result<()> {
        for run in bodies.chunks(RUN) {
            let mut batch = Batch::with_capacity(2 * run.len());
            run.iter().for_each(|body| batch.delete(Space::Revisions, body.due.clone()));
            let run: Vec<_> = run.iter().map(|body| (body.id.clone(), body.revision)).collect();
            self.remove_bodies(&run, oldest, batch)?;
        }
        Ok(())
    }

    fn remove_bodies(&self, run: &[(Vec<u8>, Revision)], oldest: u64, batch: Batch) -> Result<u64> {
        self.shared.evaluate_batch(batch, |batch| self.try_remove_bodies(run, oldest, batch))
    }

    fn try_remove_bodies(&self, run: &[(Vec<u8>, Revision)], oldest: u64, mut batch: Batch) -> Result<u64> {
        let _turn = self.begin_write()?;
        let _held = self.shared.documents.lock_many(run.iter().map(|(id, _)| (self.id.0, id.as_slice())));
        let mut removed = 0;
        batch.take_reserve();
        for (id, revision) in run {
            let key = Key::Body(self.id, id, *revision).bytes();
            let Some(value) = self.shared.engine.get(Space::Revisions, &key)? else { continue };
            let body = Body::parse(&value)?;
            if body.superseded_at.is_some_and(|at| at < oldest) {
                batch.delete(Space::Revisions, key);
                if !body.attachments.is_empty() {
                    let attachments = attachment::decode(body.attachments)?;
                    blob::release(&mut batch, self.id, id, *revision, &attachments);
                }
                removed += 1;
            }
        }
        if !batch.is_empty() {
            self.shared.engine.commit(batch)?;
        }
        Ok(removed)
    }

    /// Whether there may be tombstones to expire.
    pub(crate) fn has_expiring_tombstones(&self) -> bool {
        self.sequence.may_have_tombstones() && self.sequence.expired() < self.last_sequence()
    }

    /// Removes the tombstones that have expired at `now` (seconds since 1970), oldest first, until `is_over`. Returns
    /// whether the round has ended. The newest change stays, because the next start reads the sequence and the counts from it.
    pub fn expire_tombstones(&self, now: u64, is_over: &dyn Fn() -> bool) -> Result<bool> {
        let mut round = self.expiry.lock();
        // Usually the first tombstone stays. Then nothing behind it has to be read.
        let mut most = if round.is_some() { RUN } else { 1 };
        let start = Expiry { position: self.sequence.expired(), held_back: u64::MAX };
        let Expiry { mut position, mut held_back } = round.take().unwrap_or(start);
        loop {
            let newest = self.last_sequence();
            if !self.has_expiring_tombstones() || position >= newest {
                return Ok(true);
            }
            let (read, deletions) = self.deletions_after(position, most)?;
            let keep = self.schema().tombstone_seconds();
            let mut run = Vec::new();
            let mut end = read;
            for (sequence, id) in deletions {
                let value =
                    self.shared.engine.get(Space::Revisions, &Key::Tombstone(self.id, &id).bytes())?;
                let Some(value) = value else { continue };
                let tombstone = Tombstone::parse(&value)?;
                if is_expired(&tombstone, keep, now) && sequence < newest {
                    run.push(id);
                } else if tombstone.deleted_at > now.saturating_add(CLOCK_ERROR_SECONDS) && sequence < newest
                {
                    held_back = held_back.min(sequence - 1);
                } else {
                    end = Some(sequence - 1);
                    break;
                }
            }
            let Some(reached) = end else { return Ok(true) };
            let removed =
                run.is_empty() || self.shared.evaluate(|| self.remove_tombstones(&run, keep, now))?;
            if !removed {
                return Ok(true);
            }
            position = reached;
            most = RUN;
            self.sequence.set_expired(position.min(held_back));
            self.note_expiry()?;
            if end != read {
                return Ok(true);
            }
            if is_over() {
                *round = Some(Expiry { position, held_back });
                return Ok(false);
            }
        }
    }

    /// Reads changes after this sequence, up to `most` deletions or [`CHANGES`] changes. Returns the sequence of the last
    /// change, and the deletions.
    fn deletions_after(&self, sequence: u64, most: usize) -> Result<(Option<u64>, Vec<Deletion>)> {
        let prefix = keys::collection_prefix(self.id).len();
        let (mut last, mut deletions, mut count) = (None, Vec::new(), 0);
        let mut failure = None;
        let range = keys::changes_after(self.id, sequence);
        self.shared.engine.snapshot().visit(Space::Log, range, &mut |key, value| {
            let (sequence, _) = keys::read_number(&key[prefix..]).unwrap_or_default();
            match Change::parse(sequence, value) {
                Ok(change) if matches!(change.kind, ChangeKind::Delete | ChangeKind::Purge) => {
                    deletions.push((sequence, change.id.to_vec()));
                }
                Ok(_) => {}
                Err(error) => {
                    failure = Some(error);
                    return ControlFlow::Break(());
                }
            }
            last = Some(sequence);
            count += 1;
            let is_enough = count == CHANGES || deletions.len() == most;
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        failure.map_or(Ok((last, deletions)), Err)
    }

    /// Stores the position of expiry if a later start would otherwise read many changes again.
    fn note_expiry(&self) -> Result<()> {
        if self.sequence.expired() < self.sequence.noted_expiry().saturating_add(NOTE_EVERY) {
            return Ok(());
        }
        self.shared.evaluate(|| {
            let _turn = self.begin_write()?;
            let Some(note) = self.sequence.news() else { return Ok(()) };
            let mut batch = Batch::new();
            batch.take_reserve();
            batch.put(Space::Meta, Key::Size(self.id).bytes(), note.encode());
            self.shared.engine.commit(batch)?;
            self.sequence.noted(note);
            Ok(())
        })
    }

    /// Removes expired tombstones, with the revisions and change-log entries of their documents. Returns false if that is
    /// not possible now.
    fn remove_tombstones(&self, run: &[Vec<u8>], keep: Option<u64>, now: u64) -> Result<bool> {
        // An index build reads from the change log which documents were deleted meanwhile. The next round removes them.
        let Some(_building) = self.building.try_lock() else { return Ok(false) };
        // Either a first touch by a replicator waits for this write, or this write sees the touch in `keep`.
        let turn = self.begin_write()?;
        // Another process may build an index.
        let are_built = turn.indexes.iter().all(|index| index.is_ready());
        if turn.tombstone_seconds() != keep || !are_built {
            return Ok(false);
        }
        let _held = self.shared.documents.lock_many(run.iter().map(|id| (self.id.0, id.as_slice())));
        if self.are_claimed(&_held) {
            return Ok(false);
        }
        let newest = self.last_sequence();
        let snapshot = self.shared.engine.snapshot();
        let mut batch = Batch::new();
        batch.take_reserve();
        let mut deleted = 0;
        for id in run {
            let key = Key::Tombstone(self.id, id).bytes();
            let Some(value) = snapshot.get(Space::Revisions, &key)? else { continue };
            let tombstone = Tombstone::parse(&value)?;
            if !is_expired(&tombstone, keep, now) || tombstone.sequence == newest {
                continue;
            }
            deleted += u64::from(!tombstone.is_purged());
            batch.delete(Space::Log, Key::Change(self.id, tombstone.sequence).bytes());
            let prefix = [keys::collection_prefix(self.id).as_slice(), id].concat();
            let mut failure = None;
            snapshot.visit(Space::Revisions, KeyRange::prefix(&prefix), &mut |key, value| {
                let (list, revision) = match RevisionKey::parse(&key[prefix.len()..]) {
                    Some(RevisionKey::Tombstone) => (tombstone.attachments, tombstone.revision),
                    Some(RevisionKey::Body(revision)) => {
                        (Body::parse(value).map_or(&[][..], |body| body.attachments), revision)
                    }
                    _ => (&[][..], tombstone.revision),
                };
                if !list.is_empty() {
                    match attachment::decode(list) {
                        Ok(list) => blob::release(&mut batch, self.id, id, revision, &list),
                        Err(error) => failure = Some(error),
                    }
                }
                batch.delete(Space::Revisions, Bytes::from(key));
                ControlFlow::Continue(())
            })?;
            if let Some(error) = failure {
                return Err(error);
            }
        }
        if batch.is_empty() {
            return Ok(true);
        }
        let mut state = self.sequence.lock();
        let left = state.deleted.saturating_sub(deleted);
        let key = Key::Change(self.id, state.last).bytes();
        let newest = self.shared.engine.get(Space::Log, &key)?;
        if newest.is_none() && self.shared.has_peers() && state.last > 0 {
            // A commit is under way.
            return Ok(false);
        }
        if let Some(value) = newest {
            let change = Change { deleted: Some(left), ..Change::parse(state.last, &value)? };
            batch.put(Space::Log, key, change.encode());
        }
        if self.shared.has_peers() {
            SequenceState { deleted: left, ..*state }.note(self.id, &mut batch);
        }
        self.shared.engine.commit(batch)?;
        state.deleted = left;
        self.sequence.publish(&state);
        Ok(true)
    }

    fn revision_key<'k>(&self, key: &'k [u8]) -> Option<(&'k [u8], RevisionKey)> {
        RevisionKey::split(key.get(keys::collection_prefix(self.id).len()..)?)
    }
}

/// Whether a tombstone has expired at `now`. It is kept for `keep` seconds; `None`: it is not kept.
fn is_expired(tombstone: &Tombstone<'_>, keep: Option<u64>, now: u64) -> bool {
    keep.is_none_or(|keep| tombstone.deleted_at.saturating_add(keep) < now)
}

#[cfg(test)]
mod tests {
    use crate::keys::Key;
    use crate::record::Tombstone;
    use crate::{Base, ChangeKind, Collection, Namespace, RevisionEdit, Store, WriteOptions, check, clock};
    use crate::{Edit, id_key};
    use diwan_kv::{Batch, Engine, MemoryEngine, Space};
    use diwan_value::{DocBuf, Value, doc};
    use std::sync::Arc;

    const WEEK: u64 = 7 * 24 * 60 * 60;

    /// A collection with the documents 0 to 9.
    fn collection() -> (Arc<Store>, Arc<MemoryEngine>, Arc<Collection>) {
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open(engine.clone()).unwrap();
        let things = store.collection_or_create(&Namespace::new("test", "things").unwrap()).unwrap();
        insert(&things, 0..10);
        (store, engine, things)
    }

    fn insert(things: &Collection, ids: std::ops::Range<i32>) {
        let docs: Vec<DocBuf> = ids.map(|id| doc! { "_id": id }).collect();
        let docs: Vec<_> = docs.iter().map(DocBuf::as_doc).collect();
        assert!(things.insert(&docs, true, WriteOptions::default()).unwrap().errors.is_empty());
    }

    fn delete(things: &Collection, ids: std::ops::Range<i32>) {
        let ids: Vec<Vec<u8>> = ids.map(|id| id_key(Value::Int32(id)).unwrap()).collect();
        things.edit(&ids, WriteOptions::default(), |_, _| Ok(Edit::Delete)).unwrap();
    }

    fn expire(things: &Collection, now: u64) {
        while !things.expire_tombstones(now, &|| true).unwrap() {}
    }

    fn is_clean(store: &Store) -> bool {
        check(store, &mut |_| ()).unwrap().findings.is_empty()
    }

    #[test]
    fn an_untouched_collection_keeps_neither_ancestors_nor_tombstones() {
        let (store, _, things) = collection();
        let id = id_key(Value::Int32(9)).unwrap();
        for n in 0..3 {
            let put = |_: usize, _: Option<&crate::Record<'_>>| Ok(Edit::Put(doc! { "_id": 9, "n": n }));
            things.edit(std::slice::from_ref(&id), WriteOptions::default(), put).unwrap();
        }
        let revision = things.get(&id).unwrap().unwrap().record().revision();
        assert_eq!((revision.generation, things.ancestors(&id).unwrap().len()), (4, 0));
        delete(&things, 0..5);
        assert!(is_clean(&store));
        expire(&things, clock::now_seconds());
        // The newest change stays, because a start reads the counts from it.
        assert_eq!((things.count(), things.deleted_count()), (5, 1));
        assert!(is_clean(&store));
        // From the first touch on, all ancestors and tombstones are kept.
        things.keep_history().unwrap();
        delete(&things, 5..8);
        expire(&things, clock::now_seconds());
        assert_eq!((things.count(), things.deleted_count()), (2, 4));
        let put = |_: usize, _: Option<&crate::Record<'_>>| Ok(Edit::Put(doc! { "_id": 9, "n": "new" }));
        things.edit(std::slice::from_ref(&id), WriteOptions::default(), put).unwrap();
        assert_eq!(things.ancestors(&id).unwrap(), [revision]);
        assert!(is_clean(&store));
    }

    #[test]
    fn expiry_continues_where_the_last_round_ended_and_stops_at_a_tombstone_that_stays() {
        let (_store, engine, things) = collection();
        things.keep_history().unwrap();
        let now = clock::now_seconds();
        delete(&things, 0..3);
        insert(&things, 10..20);
        // Nothing is due: expiry passes the first ten changes, but not the tombstones.
        expire(&things, now);
        assert_eq!((things.sequence.expired(), things.deleted_count()), (10, 3));
        expire(&things, now + WEEK + 60);
        assert_eq!((things.sequence.expired(), things.deleted_count()), (23, 0));
        assert!(!things.has_expiring_tombstones());
        // A tombstone with the time of a wrong clock stays. Those behind it are removed.
        delete(&things, 10..13);
        insert(&things, 20..21);
        let key = Key::Tombstone(things.id, &id_key(Value::Int32(10)).unwrap()).bytes();
        let value = engine.get(Space::Revisions, &key).unwrap().unwrap();
        let wrong = Tombstone { deleted_at: now + 100 * WEEK, ..Tombstone::parse(&value).unwrap() };
        let mut batch = Batch::new();
        batch.put(Space::Revisions, key, wrong.encode());
        engine.commit(batch).unwrap();
        expire(&things, now + WEEK + 60);
        assert_eq!((things.sequence.expired(), things.deleted_count()), (23, 1));
        expire(&things, now + 102 * WEEK);
        assert_eq!((things.sequence.expired(), things.deleted_count()), (27, 0));
    }

    #[test]
    fn expired_tombstones_are_not_counted_even_after_a_restart() {
        let engine = Arc::new(MemoryEngine::new());
        let name = Namespace::new("test", "things").unwrap();
        let store = Store::open(engine.clone()).unwrap();
        let things = store.collection_or_create(&name).unwrap();
        let empty = doc! {};
        for id in ["a", "b", "c"] {
            for deleted in [false, true] {
                let found = things.view().document(&crate::id_key(Value::String(id)).unwrap()).unwrap();
                let base = found.map_or(Base::New, |found| Base::Leaf(found.revision));
                let (id, doc) = (Value::String(id), empty.as_doc());
                let edit = RevisionEdit { id, base, deleted, doc, attachments: Vec::new() };
                things.edit_revisions(&[edit], true, None).unwrap();
            }
        }
        assert_eq!(things.deleted_count(), 3);
        // While an index is built, deletions stay in the log.
        let building = things.building.lock();
        let later = clock::now_seconds() + WEEK + 60;
        things.expire_tombstones(later, &|| false).unwrap();
        assert_eq!(things.deleted_count(), 3);
        drop(building);
        things.expire_tombstones(later, &|| false).unwrap();
        // The newest change stays.
        assert_eq!((things.deleted_count(), things.last_sequence()), (1, 6));
        assert!(check(&store, &mut |_| ()).unwrap().findings.is_empty());
        drop((things, store));
        let store = Store::open(engine).unwrap();
        let things = store.collection(&name).unwrap().unwrap();
        assert_eq!((things.count(), things.deleted_count(), things.last_sequence()), (0, 1, 6));
        let mut kinds = Vec::new();
        things
            .view()
            .changes(0, |change| {
                kinds.push(change.kind);
                Ok(true)
            })
            .unwrap();
        assert_eq!(kinds, [ChangeKind::Delete]);
    }
}
