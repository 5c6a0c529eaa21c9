//! Purging: removes revisions without a trace in the revision tree. Replicators do not see it. Readers of the change
//! log see a change of kind [`Purge`](crate::ChangeKind::Purge) if the document has no revision left.

use super::document_state::Winner;
use super::entries::{UniqueChanges, index_keys, unique_locks};
use super::history::read_tree;
use super::{Collection, Schema};
use crate::blob::{self, attachment};
use crate::error::Result;
use crate::keys::{self, Key, RevisionKey};
use crate::record::Body;
use crate::revision::Revision;
use crate::revision::tree::RevisionTree;
use diwan_kv::{Batch, Bytes, KeyRange, Snapshot, Space};
use diwan_query::Interrupt;
use diwan_value::Doc;
use std::ops::ControlFlow;

impl Collection {
    /// Removes leaves of a document, with the ancestors that lead to no other leaf. Returns those of `revisions` that
    /// were leaves. A document without leaves no longer exists. `interrupt` ends the wait for a transaction that has
    /// written the document.
    pub fn purge(&self, id: &[u8], revisions: &[Revision], interrupt: &Interrupt) -> Result<Vec<Revision>> {
        self.shared.waiters.admit(Some(interrupt), || self.shared.evaluate(|| self.try_purge(id, revisions)))
    }

    fn try_purge(&self, id: &[u8], revisions: &[Revision]) -> Result<Vec<Revision>> {
        let turn = self.begin_write()?;
        let schema: &Schema = &turn;
        let _id = self.shared.documents.lock_one(self.id.0, id);
        self.admit_document(&_id)?;
        let current = self.current(id)?;
        let stored = current.parse()?;
        let Some(winner) = Winner::of(&stored) else { return Ok(Vec::new()) };
        let snapshot = self.shared.engine.snapshot();
        let old_tree = read_tree(snapshot.as_ref(), self.id, id, &winner)?;
        let mut new_tree = old_tree.clone();
        let removed = new_tree.remove_leaves(revisions);
        if removed.is_empty() {
            return Ok(removed);
        }
        // A purge frees space, so it may use the reserve of a full disk.
        let mut batch = Batch::new();
        batch.take_reserve();
        let next = self.stage_tree(
            snapshot.as_ref(),
            id,
            Some(&winner),
            &old_tree,
            &new_tree,
            Vec::new(),
            false,
            &mut batch,
        )?;
        self.stage_forgotten_bodies(snapshot.as_ref(), id, &old_tree, &new_tree, &mut batch)?;
        // Another leaf may win now, so the document may have other index entries.
        let old_keys = stored.record().map(|record| index_keys(schema, record.doc)).transpose()?;
        let new_keys = next.doc().map(|doc| index_keys(schema, doc)).transpose()?;
        let both = || [&old_keys, &new_keys].into_iter().flatten();
        let _uniques = self.shared.unique_keys.lock_many(both().flat_map(|keys| unique_locks(schema, keys)));
        self.admit_unique_keys(schema, &_uniques, both())?;
        let mut uniques = UniqueChanges::default();
        self.stage_index_changes(
            schema,
            id,
            next.doc().unwrap_or(Doc::EMPTY),
            old_keys.as_deref(),
            new_keys.as_deref(),
            &mut uniques,
            &mut batch,
        )?;
        uniques.write_to(&mut batch);
        self.commit(schema, batch, vec![self.staged(schema, id, &stored, next, true)])?;
        Ok(removed)
    }

    /// Stages the deletion of bodies of superseded revisions that are no longer in the tree.
    fn stage_forgotten_bodies(
        &self,
        snapshot: &dyn Snapshot,
        id: &[u8],
        before: &RevisionTree,
        after: &RevisionTree,
        batch: &mut Batch,
    ) -> Result<()> {
        let prefix = [keys::collection_prefix(self.id).as_slice(), id].concat();
        let mut bodies: Vec<(Revision, Bytes)> = Vec::new();
        snapshot.visit(Space::Revisions, KeyRange::prefix(&prefix), &mut |key, value| {
            if let Some(RevisionKey::Body(revision)) = RevisionKey::parse(&key[prefix.len()..])
                && before.leaf(&revision).is_none()
                && !after.contains(&revision)
            {
                bodies.push((revision, Bytes::from(value)));
            }
            ControlFlow::Continue(())
        })?;
        for (revision, value) in bodies {
            batch.delete(Space::Revisions, Key::Body(self.id, id, revision).bytes());
            let body = Body::parse(&value)?;
            if !body.attachments.is_empty() {
                let attachments = attachment::decode(body.attachments)?;
                blob::release(batch, self.id, id, revision, &attachments);
            }
        }
        Ok(())
    }
}
