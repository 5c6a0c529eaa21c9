//! The CouchDB way in which documents change: edits that name the revision they follow, each for itself.
//!
//! As many edits as fit go into one batch. What an edit makes of a document is worked out under the document's lock,
//! from its winner alone where that is enough, else from its whole tree.

use super::document::{check_document, check_validator, id_key};
use super::entries::{UniqueChanges, index_keys, unique_locks};
use super::history::{read_body, read_tree};
use super::lineage::{NewLeaf, Winner, id_to_keep};
use super::stage::{After, Before, Staged};
use super::{Collection, Schema};
use crate::blob::{self, Attachment, attachment};
use crate::error::{Error, Result};
use crate::index::IndexKeys;
use crate::keys::Key;
use crate::record::{Body, Marks};
use crate::revision::Revision;
use crate::revision_tree::Merge;
use diwan_kv::{Batch, CommitId, Space};
use diwan_query::code;
use diwan_value::{Doc, DocBuilder, Value};
use std::borrow::Cow;
use std::collections::HashSet;

/// What an edit builds on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// Nothing: there must be no document, or a deleted one, whose deletion the edit then follows.
    New,
    /// This revision, which must be a leaf of a document that is not deleted.
    Leaf(Revision),
    /// Whatever there is: the edit was made elsewhere, and its revision is given. It is merged with what is known.
    Graft {
        /// The revision of the edit.
        revision: Revision,
        /// The hashes of the revisions before it, newest first, as far as they are known.
        ancestors: Vec<[u8; 16]>,
    },
}

/// One edit of one document.
#[derive(Clone, Debug)]
pub struct RevisionEdit<'a> {
    /// The document's `_id`.
    pub id: Value<'a>,
    /// What it builds on.
    pub base: Base,
    /// Whether it deletes the document, or its branch of it.
    pub deleted: bool,
    /// The document, with the same `_id` or without one. A deletion may have fields too.
    pub doc: Doc<'a>,
    /// All attachments that the document has after the edit. A `revpos` of [`blob::THIS_EDIT`] stands for the edit's
    /// generation.
    pub attachments: Vec<Attachment>,
}

/// What became of an edit.
#[derive(Clone, Debug)]
pub enum RevisionOutcome {
    /// It was made, as this revision.
    Written(Revision),
    /// The revision was there already.
    Known(Revision),
    /// What it builds on is not a leaf, or there is a document already.
    Conflict,
    /// It cannot be stored.
    Refused(Error),
}

/// What became of several edits.
#[derive(Debug, Default)]
pub struct RevisionReport {
    /// Of each edit, in their order.
    pub outcomes: Vec<RevisionOutcome>,
    /// The last commit, for who wants to wait until it is durable.
    pub commit: Option<CommitId>,
}

/// How many edits one batch makes at most, and how many bytes of documents.
const BATCH_EDITS: usize = 1000;
const BATCH_BYTES: usize = 4 << 20;

/// An edit whose form is in order.
struct Ready<'a> {
    at: usize,
    edit: &'a RevisionEdit<'a>,
    id: Vec<u8>,
    /// The document with its `_id` in front.
    doc: Cow<'a, [u8]>,
}

/// The index entries of a document before an edit and after it.
type BothKeys = (Option<Vec<IndexKeys>>, Option<Vec<IndexKeys>>);

/// What an edit comes to.
enum Verdict<'a> {
    Done(RevisionOutcome),
    Write { after: After<'a>, writes: Batch, outcome: RevisionOutcome },
}

impl Collection {
    /// Makes edits, each for itself: that one is refused says nothing of the others. Edits of the same document are made
    /// in their order. `keep_bodies` keeps what they supersede readable for a while, see
    /// [`Collection::compact_bodies`].
    pub fn edit_revisions(&self, edits: &[RevisionEdit<'_>], keep_bodies: bool) -> Result<RevisionReport> {
        let mut outcomes: Vec<Option<RevisionOutcome>> = vec![None; edits.len()];
        let mut commit = None;
        let mut batch: Vec<Ready<'_>> = Vec::with_capacity(edits.len().min(BATCH_EDITS));
        let mut seen: HashSet<Vec<u8>> = HashSet::new();
        // Ids that only rise do not repeat.
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
                commit = self.edit_batch(&batch, keep_bodies, &mut outcomes)?.or(commit);
                batch.clear();
                seen.clear();
                (bytes, rising) = (ready.doc.len(), true);
            }
            batch.push(ready);
        }
        if !batch.is_empty() {
            commit = self.edit_batch(&batch, keep_bodies, &mut outcomes)?.or(commit);
        }
        let outcomes =
            outcomes.into_iter().map(|outcome| outcome.unwrap_or(RevisionOutcome::Conflict)).collect();
        Ok(RevisionReport { outcomes, commit })
    }

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
        let mut currents = Vec::with_capacity(edits.len());
        for ready in edits {
            currents.push(self.current(&ready.id)?);
        }
        let full = self.shared.engine.writable().err().filter(diwan_kv::Error::is_out_of_space);
        // What a deletion supersedes would take as much room as it makes.
        let keep_bodies = keep_bodies && full.is_none();
        let mut planned = Vec::with_capacity(edits.len());
        for (ready, current) in edits.iter().zip(&currents) {
            if let Some(full) = full.as_ref().filter(|_| !ready.edit.deleted) {
                outcomes[ready.at] = Some(RevisionOutcome::Refused(full.clone().into()));
                continue;
            }
            let verdict = current.read().and_then(|before| {
                let verdict = self.judge(schema, ready, &before, keep_bodies)?;
                let Verdict::Write { after, writes, outcome } = verdict else {
                    return Ok((before, verdict, None, None));
                };
                let old = match &before {
                    Before::Live(record) => Some(index_keys(schema, record.doc)?),
                    _ => None,
                };
                let new = after.doc().map(|doc| index_keys(schema, doc)).transpose()?;
                Ok((before, Verdict::Write { after, writes, outcome }, old, new))
            });
            match verdict {
                Ok((_, Verdict::Done(outcome), ..)) => outcomes[ready.at] = Some(outcome),
                Ok((before, Verdict::Write { after, writes, outcome }, old, new)) => {
                    planned.push((ready, before, after, writes, outcome, (old, new)));
                }
                Err(error @ Error::Engine(_)) => return Err(error),
                Err(error) => outcomes[ready.at] = Some(RevisionOutcome::Refused(error)),
            }
        }
        let keys: Vec<BothKeys> = planned.iter_mut().map(|plan| std::mem::take(&mut plan.5)).collect();
        let both = keys.iter().flat_map(|(old, new)| [old, new]).flatten();
        let _uniques = self.shared.unique_keys.lock_many(both.flat_map(|keys| unique_locks(schema, keys)));
        let mut uniques = UniqueChanges::default();
        let mut batch = Batch::with_capacity(planned.len() * (2 + schema.secondary().len()));
        if planned.iter().all(|plan| plan.0.edit.deleted) {
            batch.take_reserve();
        }
        let mut staged = Vec::with_capacity(planned.len());
        for ((ready, before, after, writes, outcome, _), (old, new)) in planned.into_iter().zip(&keys) {
            let described = after.doc().unwrap_or(Doc::EMPTY);
            let (old, new) = (old.as_deref(), new.as_deref());
            match self.stage_index_changes(schema, &ready.id, described, old, new, &mut uniques, &mut batch) {
                Ok(()) => {
                    self.note_id(&ready.id);
                    batch.append(writes);
                    staged.push(Staged::new(&ready.id, &before, after));
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
        // Trimming takes the locks of the documents that go.
        drop((turn, _ids, _uniques));
        self.trim_capped()?;
        Ok(Some(commit))
    }

    /// Works out what an edit makes of a document.
    fn judge<'a>(
        &self,
        schema: &Schema,
        ready: &'a Ready<'a>,
        before: &Before<'a>,
        keep_bodies: bool,
    ) -> Result<Verdict<'a>> {
        let edit = ready.edit;
        if !edit.deleted && !is_design(edit.id) {
            let old = match before {
                Before::Live(record) => Some(record.doc),
                _ => None,
            };
            check_validator(schema, Doc::trusted(&ready.doc), old)?;
        }
        let winner = Winner::of(before);
        match (&edit.base, winner) {
            (Base::New, None) => {
                let new = new_leaf(ready, None, None)?;
                let mut writes = Batch::new();
                self.stage_references(ready, &new, &mut writes)?;
                let outcome = RevisionOutcome::Written(new.revision);
                Ok(Verdict::Write { after: new.into_after(Marks::default()), writes, outcome })
            }
            (Base::New, Some(winner)) if winner.leaf.deleted && !edit.deleted => {
                self.follow(ready, &winner, new_leaf(ready, Some(&winner.leaf.revision), None)?, keep_bodies)
            }
            (Base::Leaf(leaf), Some(winner)) if !winner.leaf.deleted => {
                if winner.leaf.revision == *leaf {
                    return self.follow(
                        ready,
                        &winner,
                        new_leaf(ready, Some(leaf), winner.doc)?,
                        keep_bodies,
                    );
                }
                if !winner.marks.branches {
                    return Ok(Verdict::Done(RevisionOutcome::Conflict));
                }
                self.branch(ready, &winner, *leaf, keep_bodies)
            }
            (Base::New | Base::Leaf(_), _) => Ok(Verdict::Done(RevisionOutcome::Conflict)),
            (Base::Graft { revision, ancestors }, None) => self.plant(ready, *revision, ancestors),
            (Base::Graft { revision, ancestors }, Some(winner)) => {
                if !winner.marks.branches
                    && revision.generation == winner.leaf.revision.generation.saturating_add(1)
                    && ancestors.first() == Some(&winner.leaf.revision.hash)
                    && self.knows_oldest(&ready.id, revision, ancestors)?
                {
                    let new = grafted_leaf(ready, *revision, winner.doc)?;
                    return self.follow(ready, &winner, new, keep_bodies);
                }
                self.graft(ready, &winner, *revision, ancestors, keep_bodies)
            }
        }
    }

    /// Whether the oldest of a history is an ancestor of the winner, whose child the history's revision is: then the
    /// history tells nothing new of what came before.
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

    /// An edit that follows the winner.
    fn follow<'a>(
        &self,
        ready: &'a Ready<'a>,
        winner: &Winner<'a>,
        new: NewLeaf<'a>,
        keep_bodies: bool,
    ) -> Result<Verdict<'a>> {
        let mut writes = Batch::new();
        let outcome = RevisionOutcome::Written(new.revision);
        let after = self.stage_child(&ready.id, winner, new, keep_bodies, &mut writes)?;
        Ok(Verdict::Write { after, writes, outcome })
    }

    /// An edit of a leaf that does not win.
    fn branch<'a>(
        &self,
        ready: &'a Ready<'a>,
        winner: &Winner<'a>,
        leaf: Revision,
        keep_bodies: bool,
    ) -> Result<Verdict<'a>> {
        let snapshot = self.shared.engine.snapshot();
        let before = read_tree(snapshot.as_ref(), self.id, &ready.id, winner)?;
        if before.leaf(&leaf).is_none() {
            return Ok(Verdict::Done(RevisionOutcome::Conflict));
        }
        let body = read_body(snapshot.as_ref(), self.id, &ready.id, &leaf)?;
        let body = body.as_deref().map(Body::parse).transpose()?;
        let new = new_leaf(ready, Some(&leaf), body.and_then(|body| body.doc))?;
        let outcome = RevisionOutcome::Written(new.revision);
        let mut after = before.clone();
        if after.merge(new.revision, new.deleted, &[leaf.hash]) != Merge::Added {
            return Ok(Verdict::Done(RevisionOutcome::Conflict));
        }
        after.stem(self.revision_limit());
        let mut writes = Batch::new();
        let after = self.stage_tree(
            snapshot.as_ref(),
            &ready.id,
            Some(winner),
            &before,
            &after,
            vec![new],
            keep_bodies,
            &mut writes,
        )?;
        Ok(Verdict::Write { after, writes, outcome })
    }

    /// A document that comes from elsewhere and was not known here.
    fn plant<'a>(
        &self,
        ready: &'a Ready<'a>,
        revision: Revision,
        ancestors: &[[u8; 16]],
    ) -> Result<Verdict<'a>> {
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
        let after = new.into_after(Marks { branches: false, root });
        Ok(Verdict::Write { after, writes, outcome: RevisionOutcome::Written(revision) })
    }

    /// An edit from elsewhere that is merged with what is known.
    fn graft<'a>(
        &self,
        ready: &'a Ready<'a>,
        winner: &Winner<'a>,
        revision: Revision,
        ancestors: &[[u8; 16]],
        keep_bodies: bool,
    ) -> Result<Verdict<'a>> {
        let snapshot = self.shared.engine.snapshot();
        let before = read_tree(snapshot.as_ref(), self.id, &ready.id, winner)?;
        let mut after = before.clone();
        let merged = after.merge(revision, ready.edit.deleted, ancestors);
        if merged == Merge::Known {
            return Ok(Verdict::Done(RevisionOutcome::Known(revision)));
        }
        let (new, outcome) = match merged {
            Merge::Added => {
                let parent = winner.doc.filter(|_| ancestors.first() == Some(&winner.leaf.revision.hash));
                (vec![grafted_leaf(ready, revision, parent)?], RevisionOutcome::Written(revision))
            }
            _ => (Vec::new(), RevisionOutcome::Known(revision)),
        };
        after.stem(self.revision_limit());
        if after == before {
            return Ok(Verdict::Done(outcome));
        }
        let mut writes = Batch::new();
        let after = self.stage_tree(
            snapshot.as_ref(),
            &ready.id,
            Some(winner),
            &before,
            &after,
            new,
            keep_bodies,
            &mut writes,
        )?;
        Ok(Verdict::Write { after, writes, outcome })
    }

    fn stage_references(&self, ready: &Ready<'_>, new: &NewLeaf<'_>, writes: &mut Batch) -> Result<()> {
        if !new.attachments.is_empty() {
            let attachments = attachment::decode(&new.attachments)?;
            blob::reference(writes, self.id, &ready.id, new.revision, &attachments);
        }
        Ok(())
    }
}

/// The leaf that an edit makes, which follows `parent`. `old` is the parent's document.
fn new_leaf<'a>(
    ready: &'a Ready<'a>,
    parent: Option<&Revision>,
    old: Option<Doc<'_>>,
) -> Result<NewLeaf<'a>> {
    let generation = parent.map_or(1, |parent| parent.generation.saturating_add(1));
    let mut leaf = unnamed_leaf(ready, generation, old);
    // What a deletion keeps for its `_id` alone is no part of it.
    let hashed = leaf.doc.as_deref().map(Doc::trusted).filter(|doc| !leaf.deleted || has_fields(*doc));
    leaf.revision = Revision::mint(parent, leaf.deleted, hashed, &leaf.attachments);
    leaf.is_first = parent.is_none() && !leaf.deleted;
    Ok(leaf)
}

/// The leaf of an edit that was made elsewhere.
fn grafted_leaf<'a>(ready: &'a Ready<'a>, revision: Revision, old: Option<Doc<'_>>) -> Result<NewLeaf<'a>> {
    Ok(NewLeaf { revision, ..unnamed_leaf(ready, revision.generation, old) })
}

/// All of a leaf but its revision. Numbers that JSON changed the type of get back that of the document before.
fn unnamed_leaf<'a>(ready: &'a Ready<'a>, generation: u32, old: Option<Doc<'_>>) -> NewLeaf<'a> {
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
    NewLeaf { revision, is_first: false, deleted: edit.deleted, doc, attachments }
}

/// Whether a document has more than its `_id`.
fn has_fields(doc: Doc<'_>) -> bool {
    doc.iter().any(|element| element.key != b"_id")
}

/// Validators are for data, and design documents say how to look at it.
fn is_design(id: Value<'_>) -> bool {
    matches!(id, Value::String(name) if name.starts_with("_design/"))
}

fn prepare<'a>(at: usize, edit: &'a RevisionEdit<'a>) -> Result<Ready<'a>> {
    let id = id_key(edit.id)?;
    if let Base::Graft { revision, ancestors } = &edit.base
        && (revision.generation == 0 || ancestors.len() as u64 >= u64::from(revision.generation))
    {
        return Err(Error::refused(
            code::BAD_VALUE,
            format!("the revision {revision} cannot have {} revisions before it", ancestors.len()),
        ));
    }
    let first = edit.doc.iter().next();
    let doc = match first.filter(|element| element.key == b"_id") {
        Some(element) if element.value() == edit.id => Cow::Borrowed(edit.doc.as_bytes()),
        None if edit.doc.get("_id").is_none() => Cow::Owned(prepend_id(edit.id, edit.doc)),
        _ => {
            let message = "the document has another _id than the edit, or not in front";
            return Err(Error::refused(code::INVALID_ID_FIELD, message));
        }
    };
    check_document(Doc::trusted(&doc))?;
    Ok(Ready { at, edit, id, doc })
}

/// The bytes of the document with an `_id` in front.
fn prepend_id(id: Value<'_>, doc: Doc<'_>) -> Vec<u8> {
    let rest = doc.as_bytes();
    let mut out = DocBuilder::with_buffer(Vec::with_capacity(rest.len() + 32));
    out.append("_id", id);
    let mut out = out.finish().into_bytes();
    // The end of the small document makes room for the fields of the other, behind its length.
    out.pop();
    out.extend_from_slice(rest.get(4..).unwrap_or(&[0]));
    let length = (out.len() as i32).to_le_bytes();
    out[..4].copy_from_slice(&length);
    out
}
