//! Writes from CouchDB: edits that name the revision they follow. Each succeeds or fails on its own.
//!
//! Many edits share one batch. For each, under the document's lock, [`plan_edit`](Collection::plan_edit) decides what
//! it does, from the document's winner where that is enough and else from its whole tree.

use super::document::{check_document, check_validator, id_key};
use super::document_state::{LeafContent, NextState, StoredState, Winner};
use super::entries::{UniqueChanges, index_keys, unique_locks};
use super::history::{read_body, read_tree};
use super::lineage::id_to_keep;
use super::{Collection, Schema};
use crate::blob::{self, Attachment, attachment};
use crate::error::{Error, Result};
use crate::index::IndexKeys;
use crate::keys::Key;
use crate::record::{Body, Marks};
use crate::replica::Applying;
use crate::revision::Revision;
use crate::revision::tree::Merge;
use diwan_kv::{Batch, CommitId, Space};
use diwan_query::{Interrupt, code};
use diwan_value::{Doc, DocBuilder, Value};
use std::borrow::Cow;
use std::collections::HashSet;

/// The revision that an edit follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// None: the document must not exist. If it was deleted, the edit follows the deletion.
    New,
    /// This revision. It must be a leaf, and the document must not be deleted.
    Leaf(Revision),
    /// The edit was made on another server and has its revision already. Its history is merged into the document's
    /// tree.
    Graft {
        /// The revision of the edit.
        revision: Revision,
        /// The hashes of its known ancestors, newest first.
        ancestors: Vec<[u8; 16]>,
    },
}

/// One edit of one document.
#[derive(Clone, Debug)]
pub struct RevisionEdit<'a> {
    /// The document's `_id`.
    pub id: Value<'a>,
    /// The revision that the edit follows.
    pub base: Base,
    /// Whether the edit deletes the document, or one branch of it.
    pub deleted: bool,
    /// The document, with the same `_id` or without one. A deletion may have other fields too.
    pub doc: Doc<'a>,
    /// All attachments of the document after the edit. A `revpos` of [`blob::THIS_EDIT`] is replaced by the edit's
    /// generation.
    pub attachments: Vec<Attachment>,
}

/// The result of an edit.
#[derive(Clone, Debug)]
pub enum RevisionOutcome {
    /// The edit was stored under this revision.
    Written(Revision),
    /// The document had this revision already.
    Known(Revision),
    /// The revision that the edit names is not a leaf, or the document exists already.
    Conflict,
    /// The edit cannot be stored.
    Refused(Error),
}

/// The results of several edits.
#[derive(Debug, Default)]
pub struct RevisionReport {
    /// The result of each edit, in the order of the edits.
    pub outcomes: Vec<RevisionOutcome>,
    /// The last commit, for a caller that waits until it is durable.
    pub commit: Option<CommitId>,
}

/// How many edits, and how many bytes of documents, one batch takes at most.
const BATCH_EDITS: usize = 1000;
const BATCH_BYTES: usize = 4 << 20;

/// How many copies of the old or new document are in memory during a write.
const COPIES: usize = 2;

/// An edit whose arguments have been checked.
struct Ready<'a> {
    /// Its index among the request's edits.
    at: usize,
    edit: &'a RevisionEdit<'a>,
    id: Vec<u8>,
    /// The document with its `_id` as the first field.
    doc: Cow<'a, [u8]>,
}

/// The index entries of a document before an edit and after it.
type BothKeys = (Option<Vec<IndexKeys>>, Option<Vec<IndexKeys>>);

/// The effect of an edit, decided from the document's stored state.
enum EditPlan<'a> {
    /// Nothing is written.
    Settled(RevisionOutcome),
    /// The batch `writes` holds the revisions beside the winner. `next` and the index entries are still to be staged.
    Write { next: NextState<'a>, writes: Batch, outcome: RevisionOutcome },
}

impl Collection {
    /// Makes edits. Each succeeds or fails on its own. Edits of the same document are made in their order.
    /// `keep_bodies` keeps the bodies of superseded revisions until they expire or until [`Collection::compact_bodies`]
    /// removes them. `interrupt` ends the wait for a transaction that has written one of the documents. Without one the
    /// edits do not wait: then they fail with [`Error::Claimed`].
    pub fn edit_revisions(
        &self,
        edits: &[RevisionEdit<'_>],
        keep_bodies: bool,
        interrupt: Option<&Interrupt>,
    ) -> Result<RevisionReport> {
        self.keep_history()?;
        let mut outcomes: Vec<Option<RevisionOutcome>> = vec![None; edits.len()];
        let mut commit = None;
        let mut batch: Vec<Ready<'_>> = Vec::with_capacity(edits.len().min(BATCH_EDITS));
        let mut seen: HashSet<Vec<u8>> = HashSet::new();
        // A batch must not hold two edits of one document. Strictly ascending ids need no set to prove that.
        let (mut bytes, mut rising) = (0, true);
        for (at, edit) in edits.iter().enumerate() {
            let ready = match prepare(at, edit) {
                Ok(ready) => ready,
                Err(error) => {
                    outcomes[at] = Some(RevisionOutcome::Refused(error));
                    continue;
                }
            };
            bytes += ready.doc.len();
            let rises = batch.last().is_none_or(|last| last.id < ready.id);
            if rising && !rises {
                seen.extend(batch.iter().map(|earlier| earlier.id.clone()));
                rising = false;
            }
            let repeated = !rising && !seen.insert(ready.id.clone());
            if batch.len() == BATCH_EDITS || (bytes > BATCH_BYTES && !batch.is_empty()) || repeated {
                commit = self.admit_batch(&batch, keep_bodies, interrupt, &mut outcomes)?.or(commit);
                batch.clear();
                seen.clear();
                (bytes, rising) = (ready.doc.len(), true);
            }
            batch.push(ready);
        }
        if !batch.is_empty() {
            commit = self.admit_batch(&batch, keep_bodies, interrupt, &mut outcomes)?.or(commit);
        }
        let outcomes =
            outcomes.into_iter().map(|outcome| outcome.unwrap_or(RevisionOutcome::Conflict)).collect();
        Ok(RevisionReport { outcomes, commit })
    }

    /// Makes one batch of edits of different documents. Waits for transactions that have written one of them.
    fn admit_batch(
        &self,
        edits: &[Ready<'_>],
        keep_bodies: bool,
        interrupt: Option<&Interrupt>,
        outcomes: &mut [Option<RevisionOutcome>],
    ) -> Result<Option<CommitId>> {
        self.shared
            .waiters
            .admit(interrupt, || self.shared.evaluate(|| self.edit_batch(edits, keep_bodies, outcomes)))
    }

    /// Makes one batch of edits of different documents.
    fn edit_batch(
        &self,
        edits: &[Ready<'_>],
        keep_bodies: bool,
        outcomes: &mut [Option<RevisionOutcome>],
    ) -> Result<Option<CommitId>> {
        let turn = self.begin_write()?;
        let schema: &Schema = &turn;
        let _ids =
            self.shared.documents.lock_many(edits.iter().map(|ready| (self.id.0, ready.id.as_slice())));
        self.admit_documents(schema, &_ids, edits.iter().map(|ready| ready.id.as_slice()))?;
        // The parsed states borrow these bytes, so all of them are read first.
        let mut currents = Vec::with_capacity(edits.len());
        for ready in edits {
            currents.push(self.current(&ready.id)?);
        }
        let bytes =
            edits.iter().zip(&currents).map(|(ready, old)| ready.doc.len() + old.len()).sum::<usize>();
        let _pass = self.shared.large_writes.enter(COPIES * bytes);
        let full = self.shared.engine.writable().err().filter(diwan_kv::Error::is_out_of_space);
        // On a full disk a kept body would take the space that its deletion frees.
        let keep_bodies = keep_bodies && full.is_none();
        let mut planned = Vec::with_capacity(edits.len());
        for (ready, current) in edits.iter().zip(&currents) {
            if let Some(full) = full.as_ref().filter(|_| !ready.edit.deleted) {
                outcomes[ready.at] = Some(RevisionOutcome::Refused(full.clone().into()));
                continue;
            }
            let plan = current.parse().and_then(|stored| {
                let plan = self.plan_edit(schema, ready, &stored, keep_bodies)?;
                let EditPlan::Write { next, .. } = &plan else { return Ok((stored, plan, (None, None))) };
                let old = stored.record().map(|record| index_keys(schema, record.doc)).transpose()?;
                let new = next.doc().map(|doc| index_keys(schema, doc)).transpose()?;
                Ok((stored, plan, (old, new)))
            });
            match plan {
                Ok((_, EditPlan::Settled(outcome), _)) => outcomes[ready.at] = Some(outcome),
                Ok((stored, EditPlan::Write { next, writes, outcome }, keys)) => {
                    planned.push((ready, stored, next, writes, outcome, keys));
                }
                Err(error @ Error::Engine(_)) => return Err(error),
                Err(error) => outcomes[ready.at] = Some(RevisionOutcome::Refused(error)),
            }
        }
        // Locks of unique keys come after those of documents. All of them are taken at once, in one order.
        let keys: Vec<BothKeys> = planned.iter_mut().map(|plan| std::mem::take(&mut plan.5)).collect();
        let both = || keys.iter().flat_map(|(old, new)| [old, new]).flatten();
        let _uniques = self.shared.unique_keys.lock_many(both().flat_map(|keys| unique_locks(schema, keys)));
        self.admit_unique_keys(schema, &_uniques, both())?;
        let mut uniques = UniqueChanges::default();
        let mut batch = Batch::with_capacity(planned.len() * (2 + schema.secondary().len()));
        if planned.iter().all(|plan| plan.0.edit.deleted) {
            batch.take_reserve();
        }
        let mut staged = Vec::with_capacity(planned.len());
        for ((ready, stored, next, writes, outcome, _), (old, new)) in planned.into_iter().zip(&keys) {
            let described = next.doc().unwrap_or(Doc::EMPTY);
            let (old, new) = (old.as_deref(), new.as_deref());
            match self.stage_index_changes(schema, &ready.id, described, old, new, &mut uniques, &mut batch) {
                // The plan's writes join the batch only now, so a refused edit leaves nothing in it.
                Ok(()) => {
                    self.note_id(&ready.id)?;
                    batch.append(writes);
                    staged.push(self.staged(schema, &ready.id, &stored, next, true));
                    outcomes[ready.at] = Some(outcome);
                }
                Err(error @ Error::Engine(_)) => return Err(error),
                Err(error) => outcomes[ready.at] = Some(RevisionOutcome::Refused(error)),
            }
        }
        if staged.is_empty() {
            return Ok(None);
        }
        uniques.write_to(&mut batch);
        let commit = self.commit(schema, batch, staged)?;
        // Trimming locks the documents that it deletes.
        drop((turn, _ids, _uniques, _pass));
        self.trim_capped()?;
        Ok(Some(commit))
    }

    /// Decides what an edit makes of a document, without writing anything.
    fn plan_edit<'a>(
        &self,
        schema: &Schema,
        ready: &'a Ready<'a>,
        stored: &StoredState<'a>,
        keep_bodies: bool,
    ) -> Result<EditPlan<'a>> {
        let edit = ready.edit;
        if !edit.deleted && !is_design(edit.id) && !self.shared.replica.follows() {
            check_validator(schema, Doc::trusted(&ready.doc), stored.record().map(|record| record.doc))?;
        }
        let winner = Winner::of(stored);
        match (&edit.base, winner) {
            (Base::New, None) => {
                let new = new_leaf(ready, None, None)?;
                let mut writes = Batch::new();
                self.stage_references(ready, &new, &mut writes)?;
                let outcome = RevisionOutcome::Written(new.revision);
                let next = Winner { leaf: new, marks: Marks::default() }.into();
                Ok(EditPlan::Write { next, writes, outcome })
            }
            (Base::New, Some(winner)) if winner.leaf.deleted && !edit.deleted => {
                self.follow(ready, &winner, new_leaf(ready, Some(&winner.leaf.revision), None)?, keep_bodies)
            }
            (Base::Leaf(leaf), Some(winner)) if !winner.leaf.deleted => {
                if winner.leaf.revision == *leaf {
                    return self.follow(
                        ready,
                        &winner,
                        new_leaf(ready, Some(leaf), winner.leaf.as_doc())?,
                        keep_bodies,
                    );
                }
                if !winner.marks.branches {
                    return Ok(EditPlan::Settled(RevisionOutcome::Conflict));
                }
                self.branch(ready, &winner, *leaf, keep_bodies)
            }
            // The document exists, or it does not, or it is deleted.
            (Base::New | Base::Leaf(_), _) => Ok(EditPlan::Settled(RevisionOutcome::Conflict)),
            (Base::Graft { revision, ancestors }, None) => self.plant(ready, *revision, ancestors),
            (Base::Graft { revision, ancestors }, Some(winner)) => {
                // The usual case of a replication: the next revision of a document without branches.
                if !winner.marks.branches
                    && revision.generation == winner.leaf.revision.generation.saturating_add(1)
                    && ancestors.first() == Some(&winner.leaf.revision.hash)
                    && self.knows_oldest(&ready.id, revision, ancestors)?
                {
                    let new = grafted_leaf(ready, *revision, typed_by(winner.leaf.as_doc()))?;
                    return self.follow(ready, &winner, new, keep_bodies);
                }
                self.graft(ready, &winner, *revision, ancestors, keep_bodies)
            }
        }
    }

    /// Whether a history of a child of the winner adds no ancestors: its oldest revision is a known ancestor of the
    /// winner.
    fn knows_oldest(&self, id: &[u8], revision: &Revision, ancestors: &[[u8; 16]]) -> Result<bool> {
        let Some((oldest, _)) = ancestors.split_last().filter(|(_, others)| !others.is_empty()) else {
            return Ok(true);
        };
        let Some(generation) = revision.generation.checked_sub(ancestors.len() as u32) else {
            return Ok(false);
        };
        let key = Key::Ancestor(self.id, id, generation).bytes();
        Ok(self.shared.engine.get(Space::Revisions, &key)?.is_some_and(|hash| *hash == oldest[..]))
    }

    /// Plans an edit that follows the winner.
    fn follow<'a>(
        &self,
        ready: &'a Ready<'a>,
        winner: &Winner<'a>,
        new: LeafContent<'a>,
        keep_bodies: bool,
    ) -> Result<EditPlan<'a>> {
        let mut writes = Batch::new();
        let outcome = RevisionOutcome::Written(new.revision);
        let next = self.stage_child(&ready.id, winner, new, keep_bodies, &mut writes)?;
        Ok(EditPlan::Write { next, writes, outcome })
    }

    /// Plans an edit that follows a leaf other than the winner.
    fn branch<'a>(
        &self,
        ready: &'a Ready<'a>,
        winner: &Winner<'a>,
        leaf: Revision,
        keep_bodies: bool,
    ) -> Result<EditPlan<'a>> {
        let snapshot = self.shared.engine.snapshot();
        let before = read_tree(snapshot.as_ref(), self.id, &ready.id, winner)?;
        if before.leaf(&leaf).is_none() {
            return Ok(EditPlan::Settled(RevisionOutcome::Conflict));
        }
        let body = read_body(snapshot.as_ref(), self.id, &ready.id, &leaf)?;
        let body = body.as_deref().map(Body::parse).transpose()?;
        let new = new_leaf(ready, Some(&leaf), body.and_then(|body| body.doc))?;
        let outcome = RevisionOutcome::Written(new.revision);
        let mut after = before.clone();
        if after.merge(new.revision, new.deleted, &[leaf.hash]) != Merge::Added {
            return Ok(EditPlan::Settled(RevisionOutcome::Conflict));
        }
        after.stem(self.revision_limit());
        let mut writes = Batch::new();
        let next = self.stage_tree(
            snapshot.as_ref(),
            &ready.id,
            Some(winner),
            &before,
            &after,
            vec![new],
            keep_bodies,
            &mut writes,
        )?;
        Ok(EditPlan::Write { next, writes, outcome })
    }

    /// Plans an edit from another server of a document that has no revisions here.
    fn plant<'a>(
        &self,
        ready: &'a Ready<'a>,
        revision: Revision,
        ancestors: &[[u8; 16]],
    ) -> Result<EditPlan<'a>> {
        let mut new = grafted_leaf(ready, revision, None)?;
        new.is_first = revision.generation == 1
            && !new.deleted
            && Revision::mint(None, false, Some(Doc::trusted(&ready.doc)), &new.attachments) == revision;
        let mut writes = Batch::new();
        let kept = ancestors.iter().take(self.revision_limit() as usize - 1);
        let mut generation = revision.generation;
        for hash in kept {
            generation -= 1;
            writes.put(Space::Revisions, Key::Ancestor(self.id, &ready.id, generation).bytes(), &hash[..]);
        }
        let root = generation == revision.generation && generation > 1;
        self.stage_references(ready, &new, &mut writes)?;
        let next = Winner { leaf: new, marks: Marks { branches: false, root } }.into();
        Ok(EditPlan::Write { next, writes, outcome: RevisionOutcome::Written(revision) })
    }

    /// Plans an edit from another server whose history is merged into the document's tree.
    fn graft<'a>(
        &self,
        ready: &'a Ready<'a>,
        winner: &Winner<'a>,
        revision: Revision,
        ancestors: &[[u8; 16]],
        keep_bodies: bool,
    ) -> Result<EditPlan<'a>> {
        let snapshot = self.shared.engine.snapshot();
        let before = read_tree(snapshot.as_ref(), self.id, &ready.id, winner)?;
        let mut after = before.clone();
        let merged = after.merge(revision, ready.edit.deleted, ancestors);
        if merged == Merge::Known {
            return Ok(EditPlan::Settled(RevisionOutcome::Known(revision)));
        }
        let (new, outcome) = match merged {
            Merge::Added => {
                let parent =
                    winner.leaf.as_doc().filter(|_| ancestors.first() == Some(&winner.leaf.revision.hash));
                (vec![grafted_leaf(ready, revision, typed_by(parent))?], RevisionOutcome::Written(revision))
            }
            _ => (Vec::new(), RevisionOutcome::Known(revision)),
        };
        after.stem(self.revision_limit());
        if after == before {
            return Ok(EditPlan::Settled(outcome));
        }
        let mut writes = Batch::new();
        let next = self.stage_tree(
            snapshot.as_ref(),
            &ready.id,
            Some(winner),
            &before,
            &after,
            new,
            keep_bodies,
            &mut writes,
        )?;
        Ok(EditPlan::Write { next, writes, outcome })
    }

    fn stage_references(&self, ready: &Ready<'_>, new: &LeafContent<'_>, writes: &mut Batch) -> Result<()> {
        if !new.attachments.is_empty() {
            let attachments = attachment::decode(&new.attachments)?;
            if self.shared.has_peers() {
                // The process that sweeps blobs does not know what this one holds.
                blob::check_heads(self.shared.engine.as_ref(), self.id, &attachments)?;
            }
            blob::reference(writes, self.id, &ready.id, new.revision, &attachments);
        }
        Ok(())
    }
}

/// The leaf of an edit that follows `parent`. `old` is the parent's document.
fn new_leaf<'a>(
    ready: &'a Ready<'a>,
    parent: Option<&Revision>,
    old: Option<Doc<'_>>,
) -> Result<LeafContent<'a>> {
    let generation = parent.map_or(1, |parent| parent.generation.saturating_add(1));
    let mut leaf = unnamed_leaf(ready, generation, old);
    // A document that a deletion keeps only to restore its `_id` is not part of the revision's hash.
    let hashed = leaf.doc.as_deref().map(Doc::trusted).filter(|doc| !leaf.deleted || has_fields(*doc));
    leaf.revision = Revision::mint(parent, leaf.deleted, hashed, &leaf.attachments);
    leaf.is_first = parent.is_none() && !leaf.deleted;
    Ok(leaf)
}

/// The leaf of an edit that was made on another server.
fn grafted_leaf<'a>(
    ready: &'a Ready<'a>,
    revision: Revision,
    old: Option<Doc<'_>>,
) -> Result<LeafContent<'a>> {
    Ok(LeafContent { revision, ..unnamed_leaf(ready, revision.generation, old) })
}

/// A leaf without the hash of its revision. Numbers that JSON turned into another type get the type back that they have
/// in `old`.
fn unnamed_leaf<'a>(ready: &'a Ready<'a>, generation: u32, old: Option<Doc<'_>>) -> LeafContent<'a> {
    let edit = ready.edit;
    let given = Doc::trusted(&ready.doc);
    let doc = match edit.deleted && !has_fields(given) {
        true => id_to_keep(&ready.id, given).map(|doc| Cow::Owned(doc.into_bytes())),
        false => {
            let kept = old.and_then(|old| diwan_value::json::keep_types(old, given));
            Some(kept.map_or(Cow::Borrowed(&*ready.doc), |doc| Cow::Owned(doc.into_bytes())))
        }
    };
    let attachments = match edit.attachments.as_slice() {
        [] => Cow::Borrowed(&[][..]),
        list => {
            let mut list = list.to_vec();
            for attachment in list.iter_mut().filter(|attachment| attachment.revpos == blob::THIS_EDIT) {
                attachment.revpos = generation;
            }
            Cow::Owned(attachment::encode(&list))
        }
    };
    let revision = Revision { generation, hash: [0; 16] };
    LeafContent { revision, is_first: false, deleted: edit.deleted, doc, attachments }
}

/// The document that says which types the numbers of its successor have. Between the servers of a replica set, documents
/// travel with their types.
fn typed_by(parent: Option<Doc<'_>>) -> Option<Doc<'_>> {
    parent.filter(|_| !Applying::is_under_way())
}

/// Whether a document has more than its `_id`.
fn has_fields(doc: Doc<'_>) -> bool {
    doc.iter().any(|element| element.key != b"_id")
}

/// Whether an id is that of a design document. Validators do not apply to design documents.
fn is_design(id: Value<'_>) -> bool {
    matches!(id, Value::String(name) if name.starts_with("_design/"))
}

/// Checks the arguments of an edit.
fn prepare<'a>(at: usize, edit: &'a RevisionEdit<'a>) -> Result<Ready<'a>> {
    let id = id_key(edit.id)?;
    if let Base::Graft { revision, ancestors } = &edit.base
        && (revision.generation == 0 || ancestors.len() as u64 >= u64::from(revision.generation))
    {
        return Err(Error::refused(
            code::BAD_VALUE,
            format!("the revision {revision} cannot have {} ancestors", ancestors.len()),
        ));
    }
    let first = edit.doc.iter().next();
    let doc = match first.filter(|element| element.key == b"_id") {
        Some(element) if element.value() == edit.id => Cow::Borrowed(edit.doc.as_bytes()),
        None if edit.doc.get("_id").is_none() => Cow::Owned(prepend_id(edit.id, edit.doc)),
        _ => {
            let message = "the document's _id differs from the edit's, or is not its first field";
            return Err(Error::refused(code::INVALID_ID_FIELD, message));
        }
    };
    check_document(Doc::trusted(&doc))?;
    Ok(Ready { at, edit, id, doc })
}

/// The bytes of the document with an `_id` as the first field.
fn prepend_id(id: Value<'_>, doc: Doc<'_>) -> Vec<u8> {
    let rest = doc.as_bytes();
    let mut out = DocBuilder::with_buffer(Vec::with_capacity(rest.len() + 32));
    out.append("_id", id);
    let mut out = out.finish().into_bytes();
    // Replaces the end of the small document by the fields and the end of the other one.
    out.pop();
    out.extend_from_slice(rest.get(4..).unwrap_or(&[0]));
    let length = (out.len() as i32).to_le_bytes();
    out[..4].copy_from_slice(&length);
    out
}
