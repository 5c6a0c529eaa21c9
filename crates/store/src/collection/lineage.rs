//! Staging the revision history of a change: ancestors, branches, bodies of revisions that do not win, and references
//! to attachments.
//!
//! A document without branches is changed without reading its history: its old winner becomes an ancestor, and
//! ancestors beyond the revision limit are deleted. For a document with branches the whole tree is read and changed,
//! and the difference is written.

use super::Collection;
use super::document_state::{LeafContent, NextState, Winner};
use super::history::{read_body, read_tree};
use crate::blob::{self, attachment};
use crate::clock;
use crate::error::{Error, Result};
use crate::keys::{self, Key};
use crate::record::{Body, Marks, Record, Tombstone};
use crate::revision::Revision;
use crate::revision::tree::{Leaf, RevisionTree};
use diwan_kv::{Batch, Direction, KeyRange, Snapshot, Space};
use diwan_value::{Doc, DocBuf, key};
use std::borrow::Cow;
use std::collections::BTreeMap;

impl Collection {
    /// Stages an update from MongoDB: a new revision that follows the winner and keeps its attachments.
    pub(super) fn stage_update<'a>(
        &self,
        id: &[u8],
        record: &Record<'a>,
        doc: Doc<'a>,
        batch: &mut Batch,
    ) -> Result<NextState<'a>> {
        let winner = Winner::of_record(record);
        let parent = winner.leaf.revision;
        let new = LeafContent {
            revision: Revision::mint(Some(&parent), false, Some(doc), record.attachments),
            is_first: false,
            deleted: false,
            doc: Some(Cow::Borrowed(doc.as_bytes())),
            attachments: Cow::Borrowed(record.attachments),
        };
        self.stage_child(id, &winner, new, false, batch)
    }

    /// Stages a deletion from MongoDB: every leaf of the tree that is no deletion gets a deletion.
    pub(super) fn stage_delete<'a>(
        &self,
        id: &[u8],
        record: &Record<'a>,
        batch: &mut Batch,
    ) -> Result<NextState<'a>> {
        let winner = Winner::of_record(record);
        let remains = id_to_keep(id, record.doc);
        let deletion = |parent: &Revision| LeafContent {
            revision: Revision::mint(Some(parent), true, None, &[]),
            is_first: false,
            deleted: true,
            doc: remains.clone().map(|doc| Cow::Owned(doc.into_bytes())),
            attachments: Cow::Borrowed(&[]),
        };
        if !record.marks.branches {
            return self.stage_child(id, &winner, deletion(&winner.leaf.revision), false, batch);
        }
        let snapshot = self.shared.engine.snapshot();
        let before = read_tree(snapshot.as_ref(), self.id, id, &winner)?;
        let mut after = before.clone();
        let mut deletions = Vec::new();
        for leaf in before.leaves().iter().filter(|leaf| !leaf.deleted) {
            let new = deletion(&leaf.revision);
            after.merge(new.revision, true, &[leaf.revision.hash]);
            deletions.push(new);
        }
        after.stem(self.revision_limit());
        self.stage_tree(snapshot.as_ref(), id, Some(&winner), &before, &after, deletions, false, batch)
    }

    /// Stages an insert over a tombstone: the new revision follows the deletion's.
    pub(super) fn stage_revival<'a>(
        &self,
        id: &[u8],
        tombstone: &Tombstone<'a>,
        doc: Doc<'a>,
        attachments: &'a [u8],
        batch: &mut Batch,
    ) -> Result<NextState<'a>> {
        let winner = Winner::of_tombstone(tombstone);
        let new = LeafContent {
            revision: Revision::mint(Some(&tombstone.revision), false, Some(doc), attachments),
            is_first: false,
            deleted: false,
            doc: Some(Cow::Borrowed(doc.as_bytes())),
            attachments: Cow::Borrowed(attachments),
        };
        self.stage_child(id, &winner, new, false, batch)
    }

    /// Stages a revision that follows the winner. It becomes the winner, unless it is a deletion and another branch
    /// wins.
    pub(super) fn stage_child<'a>(
        &self,
        id: &[u8],
        winner: &Winner<'a>,
        new: LeafContent<'a>,
        keep_body: bool,
        batch: &mut Batch,
    ) -> Result<NextState<'a>> {
        let parent = winner.leaf.revision;
        if winner.marks.branches {
            let snapshot = self.shared.engine.snapshot();
            let before = read_tree(snapshot.as_ref(), self.id, id, winner)?;
            let mut after = before.clone();
            after.merge(new.revision, new.deleted, &[parent.hash]);
            after.stem(self.revision_limit());
            return self.stage_tree(
                snapshot.as_ref(),
                id,
                Some(winner),
                &before,
                &after,
                vec![new],
                keep_body,
                batch,
            );
        }
        let marks = self.stage_ancestor(id, parent, batch)?;
        self.stage_superseded(id, winner, keep_body, batch)?;
        if !new.attachments.is_empty() {
            blob::reference(batch, self.id, id, new.revision, &attachment::decode(&new.attachments)?);
        }
        Ok(Winner { leaf: new, marks }.into())
    }

    /// Stages the old winner of a document without branches as an ancestor, and deletes ancestors beyond the limit.
    /// Returns the marks of the new winner's header.
    fn stage_ancestor(&self, id: &[u8], parent: Revision, batch: &mut Batch) -> Result<Marks> {
        if !self.keeps_history() {
            return Ok(Marks { branches: false, root: true });
        }
        let limit = self.revision_limit();
        if limit > 1 {
            batch.put(
                Space::Revisions,
                Key::Ancestor(self.id, id, parent.generation).bytes(),
                &parent.hash[..],
            );
        }
        let oldest_cut = (parent.generation.saturating_add(1)).saturating_sub(limit);
        if oldest_cut > 0 {
            let mut cut = |generation: u32| {
                if generation > 0 && generation != parent.generation {
                    batch.delete(Space::Revisions, Key::Ancestor(self.id, id, generation).bytes());
                }
            };
            if self.has_own_revision_limit() {
                // The limit may have been higher before, so there may be any number of old ancestors.
                let first = Key::Ancestor(self.id, id, 1).bytes();
                let last = Key::Ancestor(self.id, id, oldest_cut).bytes();
                let range = KeyRange::closed(first, last);
                let prefix = keys::collection_prefix(self.id).len();
                for pair in self.shared.engine.snapshot().scan(Space::Revisions, range, Direction::Forward) {
                    if let Some((_, keys::RevisionKey::Ancestor(generation))) =
                        keys::RevisionKey::split(&pair?.0[prefix..])
                    {
                        // With a limit of 1 the parent has no key, so `cut` may skip its generation.
                        cut(generation);
                    }
                }
            } else {
                cut(oldest_cut);
                // An earlier version of the program kept one more.
                cut(oldest_cut - 1);
            }
        }
        Ok(Marks { branches: false, root: limit <= 1 })
    }

    /// Stages the body of a winner that is replaced: keeps it under its revision, or releases its attachments.
    fn stage_superseded(
        &self,
        id: &[u8],
        winner: &Winner<'_>,
        keep_body: bool,
        batch: &mut Batch,
    ) -> Result<()> {
        let leaf = &winner.leaf;
        if keep_body && (leaf.doc.is_some() || !leaf.attachments.is_empty()) {
            self.stage_body(id, leaf.revision, &leaf.body(true), batch);
        } else if !leaf.attachments.is_empty() {
            let attachments = attachment::decode(&leaf.attachments)?;
            blob::release(batch, self.id, id, leaf.revision, &attachments);
        }
        Ok(())
    }

    fn stage_body(&self, id: &[u8], revision: Revision, body: &Body<'_>, batch: &mut Batch) {
        if body.doc.is_some() || !body.attachments.is_empty() {
            batch.put(Space::Revisions, Key::Body(self.id, id, revision).bytes(), body.encode());
            if let Some(superseded_at) = body.superseded_at {
                let due = Key::DueBody { superseded_at, collection: self.id, id, revision };
                batch.put(Space::Revisions, due.bytes(), Vec::new());
            }
        }
    }

    /// Stages the difference between a document's trees before and after a change. Returns the document's next state.
    /// `winner` is the winner of the tree before; `new` holds the leaves that only the tree after has.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn stage_tree<'a>(
        &self,
        snapshot: &dyn Snapshot,
        id: &[u8],
        winner: Option<&Winner<'a>>,
        before: &RevisionTree,
        after: &RevisionTree,
        new: Vec<LeafContent<'a>>,
        keep_bodies: bool,
        batch: &mut Batch,
    ) -> Result<NextState<'a>> {
        let path = |tree: &RevisionTree, winner: Option<Leaf>| -> BTreeMap<u32, [u8; 16]> {
            let path = winner.map_or_else(Vec::new, |leaf| tree.path(&leaf.revision));
            path.into_iter().skip(1).map(|revision| (revision.generation, revision.hash)).collect()
        };
        // The ancestors of the winner have a key each.
        let next = after.winner();
        let (old_path, new_path) = (path(before, before.winner()), path(after, next));
        for (&generation, hash) in &new_path {
            if old_path.get(&generation) != Some(hash) {
                batch.put(Space::Revisions, Key::Ancestor(self.id, id, generation).bytes(), &hash[..]);
            }
        }
        for generation in old_path.keys().filter(|generation| !new_path.contains_key(generation)) {
            batch.delete(Space::Revisions, Key::Ancestor(self.id, id, *generation).bytes());
        }
        // All other branches lie under one key.
        let (old_branches, new_branches) = (before.encode_branches(), after.encode_branches());
        let marks = Marks {
            branches: new_branches.is_some(),
            root: new_path.is_empty() && next.is_some_and(|leaf| leaf.revision.generation > 1),
        };
        if old_branches != new_branches {
            let key = Key::Branches(self.id, id).bytes();
            match new_branches {
                Some(bytes) => batch.put(Space::Revisions, key, bytes),
                None => batch.delete(Space::Revisions, key),
            }
        }
        // The bodies: the winner's lies in the record, those of other leaves under keys of their own.
        let mut result = None;
        for leaf in before.leaves() {
            let stays = after.leaf(&leaf.revision).is_some();
            let wins = stays && next.is_some_and(|next| next.revision == leaf.revision);
            let kept = keep_bodies && after.contains(&leaf.revision);
            if let Some(winner) = winner.filter(|winner| winner.leaf.revision == leaf.revision) {
                if wins {
                    result = Some(Winner { leaf: winner.leaf.clone(), marks }.into());
                } else if stays {
                    self.stage_body(id, leaf.revision, &winner.leaf.body(false), batch);
                } else {
                    self.stage_superseded(id, winner, kept, batch)?;
                }
                continue;
            }
            if stays && !wins {
                continue;
            }
            // This leaf did not win before. Now it wins, or it is a leaf no longer.
            let stored = read_body(snapshot, self.id, id, &leaf.revision)?;
            let Some(bytes) = stored else {
                if wins && leaf.deleted {
                    let (doc, attachments) = (None, Cow::Borrowed(&[][..]));
                    result = Some(NextState::Deleted { doc, revision: leaf.revision, marks, attachments });
                } else if !leaf.deleted {
                    return Err(Error::Damaged(format!("the body of the revision {}", leaf.revision)));
                }
                continue;
            };
            let body = Body::parse(&bytes)?;
            if wins {
                let promoted = LeafContent {
                    revision: leaf.revision,
                    is_first: false,
                    deleted: leaf.deleted,
                    doc: body.doc.map(|doc| Cow::Owned(doc.as_bytes().to_vec())),
                    attachments: Cow::Owned(body.attachments.to_vec()),
                };
                result = Some(Winner { leaf: promoted, marks }.into());
                batch.delete(Space::Revisions, Key::Body(self.id, id, leaf.revision).bytes());
            } else if kept {
                let body = Body { superseded_at: Some(clock::now_seconds()), ..body };
                self.stage_body(id, leaf.revision, &body, batch);
            } else {
                batch.delete(Space::Revisions, Key::Body(self.id, id, leaf.revision).bytes());
                if !body.attachments.is_empty() {
                    let attachments = attachment::decode(body.attachments)?;
                    blob::release(batch, self.id, id, leaf.revision, &attachments);
                }
            }
        }
        for leaf in new {
            if !leaf.attachments.is_empty() {
                blob::reference(batch, self.id, id, leaf.revision, &attachment::decode(&leaf.attachments)?);
            }
            if next.is_some_and(|next| next.revision == leaf.revision) {
                result = Some(Winner { leaf, marks }.into());
            } else {
                self.stage_body(id, leaf.revision, &leaf.body(false), batch);
            }
        }
        match (result, next) {
            (Some(after), _) => Ok(after),
            (None, None) => Ok(NextState::Purged),
            (None, Some(leaf)) => Err(Error::Damaged(format!("the winning revision {}", leaf.revision))),
        }
    }
}

/// The document that a deletion must keep so that the exact `_id` is not lost; `None` if the key bytes alone restore
/// it.
pub(super) fn id_to_keep(id: &[u8], doc: Doc<'_>) -> Option<DocBuf> {
    let value = doc.get_raw("_id")?;
    let told = key::decode(id, &[], &[key::Direction::Ascending])
        .is_some_and(|decoded| decoded.first().is_some_and(|decoded| decoded.as_raw() == value));
    (!told).then(|| {
        let mut out = diwan_value::DocBuilder::new();
        out.append_raw(b"_id", value);
        out.finish()
    })
}
