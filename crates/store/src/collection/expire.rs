//! What goes in time: tombstones that no replicator needs any more, and bodies of revisions that were superseded.

use super::Collection;
use crate::blob::{self, attachment};
use crate::change::Change;
use crate::error::Result;
use crate::keys::{self, Key, RevisionKey};
use crate::record::{Body, Tombstone};
use diwan_kv::{Batch, Bytes, KeyRange, Space};
use std::ops::{Bound, ControlFlow};

/// How many keys one batch is about.
const RUN: usize = 256;

impl Collection {
    /// Removes the bodies of superseded revisions; the winner's and the conflicts' stay. Gives how many there were.
    pub fn compact_bodies(&self) -> Result<u64> {
        self.expire_bodies(u64::MAX, &|| false)
    }

    /// Removes the bodies of revisions that were superseded before `oldest` (seconds since 1970), until `stopped` says
    /// to end.
    pub(crate) fn expire_bodies(&self, oldest: u64, stopped: &dyn Fn() -> bool) -> Result<u64> {
        if !self.sequence.may_have_other_bodies() {
            return Ok(0);
        }
        let mut removed = 0;
        self.each_run(
            stopped,
            |kind, value| {
                matches!(kind, RevisionKey::Body(_))
                    && Body::parse(value).is_ok_and(|body| body.superseded_at.is_some_and(|at| at < oldest))
            },
            |run| {
                let _turn = self.begin_write()?;
                let _held = self.lock_documents(run);
                let mut batch = Batch::with_capacity(run.len());
                batch.take_reserve();
                for (id, key) in run {
                    let Some(value) = self.shared.engine.get(Space::Revisions, key)? else { continue };
                    let (body, kind) = (Body::parse(&value)?, self.revision_key(key));
                    let Some((_, RevisionKey::Body(revision))) = kind else { continue };
                    if body.superseded_at.is_some() {
                        batch.delete(Space::Revisions, key.as_slice());
                        if !body.attachments.is_empty() {
                            let attachments = attachment::decode(body.attachments)?;
                            blob::release(&mut batch, self.id, id, revision, &attachments);
                        }
                        removed += 1;
                    }
                }
                if !batch.is_empty() {
                    self.shared.engine.commit(batch)?;
                }
                Ok(())
            },
        )?;
        Ok(removed)
    }

    /// Forgets the documents that were deleted before `oldest` (seconds since 1970), until `stopped` says to end. The
    /// newest change stays: it tells the next start the sequence and the counts.
    pub(crate) fn expire_tombstones(&self, oldest: u64, stopped: &dyn Fn() -> bool) -> Result<()> {
        if !self.sequence.may_have_tombstones() {
            return Ok(());
        }
        self.each_run(
            stopped,
            |kind, value| {
                kind == RevisionKey::Tombstone
                    && Tombstone::parse(value).is_ok_and(|tombstone| tombstone.deleted_at < oldest)
            },
            |run| self.forget(run, oldest),
        )
    }

    fn forget(&self, run: &[(Vec<u8>, Vec<u8>)], oldest: u64) -> Result<()> {
        // Who builds an index asks the log what was deleted meanwhile. What stays now goes the next time.
        let Some(_building) = self.building.try_lock() else { return Ok(()) };
        let _turn = self.begin_write()?;
        let _held = self.lock_documents(run);
        let newest = self.last_sequence();
        let snapshot = self.shared.engine.snapshot();
        let mut batch = Batch::new();
        batch.take_reserve();
        let mut deleted = 0;
        for (id, key) in run {
            let Some(value) = snapshot.get(Space::Revisions, key)? else { continue };
            let tombstone = Tombstone::parse(&value)?;
            if tombstone.deleted_at >= oldest || tombstone.sequence == newest {
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
            return Ok(());
        }
        let mut state = self.sequence.lock();
        let left = state.deleted.saturating_sub(deleted);
        let key = Key::Change(self.id, state.last).bytes();
        if let Some(value) = self.shared.engine.get(Space::Log, &key)? {
            let change = Change { deleted: Some(left), ..Change::parse(state.last, &value)? };
            batch.put(Space::Log, key, change.encode());
        }
        self.shared.engine.commit(batch)?;
        state.deleted = left;
        self.sequence.publish(&state);
        Ok(())
    }

    /// Collects the keys of `Revisions` that are chosen, and hands them on some at a time, with their documents' ids.
    fn each_run(
        &self,
        stopped: &dyn Fn() -> bool,
        chosen: impl Fn(RevisionKey, &[u8]) -> bool,
        mut work: impl FnMut(&[(Vec<u8>, Vec<u8>)]) -> Result<()>,
    ) -> Result<()> {
        let mut range = KeyRange::prefix(&keys::collection_prefix(self.id));
        loop {
            let mut run: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            self.shared.engine.snapshot().visit(Space::Revisions, range.clone(), &mut |key, value| {
                if let Some((id, kind)) = self.revision_key(key)
                    && chosen(kind, value)
                {
                    run.push((id.to_vec(), key.to_vec()));
                }
                if run.len() < RUN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            let Some((_, last)) = run.last() else { return Ok(()) };
            range.start = Bound::Excluded(Bytes::from(last.as_slice()));
            work(&run)?;
            if run.len() < RUN || stopped() {
                return Ok(());
            }
        }
    }

    fn revision_key<'k>(&self, key: &'k [u8]) -> Option<(&'k [u8], RevisionKey)> {
        RevisionKey::split(key.get(keys::collection_prefix(self.id).len()..)?)
    }

    fn lock_documents(&self, run: &[(Vec<u8>, Vec<u8>)]) -> crate::locks::Held<'_> {
        self.shared.documents.lock_many(run.iter().map(|(id, _)| (self.id.0, id.as_slice())))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Base, ChangeKind, Namespace, RevisionEdit, Store, check};
    use diwan_kv::MemoryEngine;
    use diwan_value::{Value, doc};
    use std::sync::Arc;

    #[test]
    fn expired_tombstones_are_no_longer_counted_also_after_a_restart() {
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
                things.edit_revisions(&[edit], true).unwrap();
            }
        }
        assert_eq!(things.deleted_count(), 3);
        // Who builds an index must find them in the log.
        let building = things.building.lock();
        things.expire_tombstones(u64::MAX, &|| false).unwrap();
        assert_eq!(things.deleted_count(), 3);
        drop(building);
        things.expire_tombstones(u64::MAX, &|| false).unwrap();
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
