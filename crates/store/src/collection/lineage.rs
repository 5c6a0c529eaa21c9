//! What a change writes beside the record: ancestors, branches, bodies of other revisions, references to attachments.
//!
//! A document without branches is changed without reading its history: the old winner becomes an ancestor, and what
//! lies beyond the limit goes. One with branches is changed as a whole: its tree is read, changed, and the difference
//! written.

use super::Collection;
use super::history::{read_body, read_tree};
use super::stage::{After, Before};
use crate::blob::{self, attachment};
use crate::clock;
use crate::error::{Error, Result};
use crate::keys::{self, Key};
use crate::record::{Body, Marks, Record, Tombstone};
use crate::revision::Revision;
use crate::revision_tree::{Leaf, RevisionTree};
use diwan_kv::{Batch, Direction, KeyRange, Snapshot, Space};
use diwan_value::{Doc, DocBuf, key};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A revision that a change brings.
pub(super) struct NewLeaf<'a> {
    pub revision: Revision,
    /// Whether the revision is what the document's bytes give, so that it need not be stored.
    pub is_first: bool,
    pub deleted: bool,
    /// The document; of a deletion, if it leaves one.
    pub doc: Option<Cow<'a, [u8]>>,
    pub attachments: Cow<'a, [u8]>,
}

/// The winner as it is stored.
#[derive(Clone, Copy)]
pub(super) struct Winner<'a> {
    pub leaf: Leaf,
    pub marks: Marks,
    pub doc: Option<Doc<'a>>,
    pub attachments: &'a [u8],
}

impl<'a> Winner<'a> {
    /// `None` if there is no revision at all.
    pub fn of(before: &Before<'a>) -> Option<Winner<'a>> {
        match before {
            Before::Live(record) => Some(Winner::live(record)),
            Before::Gone(tombstone) if !tombstone.is_purged() => Some(Winner::gone(tombstone)),
            Before::Absent | Before::Gone(_) => None,
        }
    }

    pub fn live(record: &Record<'a>) -> Winner<'a> {
        Winner {
            leaf: Leaf { revision: record.revision(), deleted: false },
            marks: record.marks,
            doc: Some(record.doc),
            attachments: record.attachments,
        }
    }

    pub fn gone(tombstone: &Tombstone<'a>) -> Winner<'a> {
        Winner {
            leaf: Leaf { revision: tombstone.revision, deleted: true },
            marks: tombstone.marks,
            doc: tombstone.doc,
            attachments: tombstone.attachments,
        }
    }

    fn body(&self, superseded: bool) -> Body<'a> {
        Body {
            deleted: self.leaf.deleted,
            superseded_at: superseded.then(clock::now_seconds),
            attachments: self.attachments,
            doc: self.doc,
        }
    }
}

impl<'a> NewLeaf<'a> {
    /// What is stored if this is the winner.
    pub fn into_after(self, marks: Marks) -> After<'a> {
        let NewLeaf { revision, is_first, deleted, doc, attachments } = self;
        match doc {
            Some(doc) if !deleted => {
                let revision = (!is_first).then_some(revision);
                After::Live { doc, revision, marks, attachments }
            }
            doc => After::Gone { doc, revision, marks, attachments },
        }
    }

    fn body(&self) -> Body<'_> {
        Body {
            deleted: self.deleted,
            superseded_at: None,
            attachments: &self.attachments,
            doc: self.doc.as_deref().map(Doc::trusted),
        }
    }
}

impl Collection {
    /// The MongoDB way to replace a winner: its attachments stay.
    pub(super) fn stage_update<'a>(
        &self,
        id: &[u8],
        record: &Record<'a>,
        doc: Doc<'a>,
        batch: &mut Batch,
    ) -> Result<After<'a>> {
        let winner = Winner::live(record);
        let parent = winner.leaf.revision;
        let new = NewLeaf {
            revision: Revision::mint(Some(&parent), false, Some(doc), record.attachments),
            is_first: false,
            deleted: false,
            doc: Some(Cow::Borrowed(doc.as_bytes())),
            attachments: Cow::Borrowed(record.attachments),
        };
        self.stage_child(id, &winner, new, false, batch)
    }

    /// The MongoDB way to delete a document: every branch of it ends.
    pub(super) fn stage_delete<'a>(
        &self,
        id: &[u8],
        record: &Record<'a>,
        batch: &mut Batch,
    ) -> Result<After<'a>> {
        let winner = Winner::live(record);
        let remains = id_to_keep(id, record.doc);
        let deletion = |parent: &Revision| NewLeaf {
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

    /// A document where there is a tombstone: its revision follows the deletion's.
    pub(super) fn stage_revival<'a>(
        &self,
        id: &[u8],
        tombstone: &Tombstone<'a>,
        doc: Doc<'a>,
        attachments: &'a [u8],
        batch: &mut Batch,
    ) -> Result<After<'a>> {
        let winner = Winner::gone(tombstone);
        let new = NewLeaf {
            revision: Revision::mint(Some(&tombstone.revision), false, Some(doc), attachments),
            is_first: false,
            deleted: false,
            doc: Some(Cow::Borrowed(doc.as_bytes())),
            attachments: Cow::Borrowed(attachments),
        };
        self.stage_child(id, &winner, new, false, batch)
    }

    /// A revision that follows the winner and so becomes the winner itself, if it is no deletion or if there is no other
    /// branch.
    pub(super) fn stage_child<'a>(
        &self,
        id: &[u8],
        winner: &Winner<'a>,
        new: NewLeaf<'a>,
        keep_body: bool,
        batch: &mut Batch,
    ) -> Result<After<'a>> {
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
        Ok(new.into_after(marks))
    }

    /// Makes the winner of a document without branches the parent of the next one.
    fn stage_ancestor(&self, id: &[u8], parent: Revision, batch: &mut Batch) -> Result<Marks> {
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
                // There may be more: the limit may have been higher.
                let first = Key::Ancestor(self.id, id, 1).bytes();
                let last = Key::Ancestor(self.id, id, oldest_cut).bytes();
                let range = KeyRange::closed(first, last);
                let prefix = keys::collection_prefix(self.id).len();
                for pair in self.shared.engine.snapshot().scan(Space::Revisions, range, Direction::Forward) {
                    if let Some((_, keys::RevisionKey::Ancestor(generation))) =
                        keys::RevisionKey::split(&pair?.0[prefix..])
                    {
                        // With a limit of 1 the parent's own key is never there.
                        cut(generation);
                    }
                }
            } else {
                cut(oldest_cut);
                // An earlier version kept one more.
                cut(oldest_cut - 1);
            }
        }
        Ok(Marks { branches: false, root: limit <= 1 })
    }

    /// Keeps the winner's body under its revision, or lets go of what it refers to.
    fn stage_superseded(
        &self,
        id: &[u8],
        winner: &Winner<'_>,
        keep_body: bool,
        batch: &mut Batch,
    ) -> Result<()> {
        if keep_body && (winner.doc.is_some() || !winner.attachments.is_empty()) {
            self.stage_body(id, winner.leaf.revision, &winner.body(true), batch);
        } else if !winner.attachments.is_empty() {
            let attachments = attachment::decode(winner.attachments)?;
            blob::release(batch, self.id, id, winner.leaf.revision, &attachments);
        }
        Ok(())
    }

    fn stage_body(&self, id: &[u8], revision: Revision, body: &Body<'_>, batch: &mut Batch) {
        if body.doc.is_some() || !body.attachments.is_empty() {
            self.sequence.note_other_bodies();
            batch.put(Space::Revisions, Key::Body(self.id, id, revision).bytes(), body.encode());
        }
    }

    /// Writes the difference between two trees of a document, and gives what is stored of its winner after it.
    /// `winner` is that of the tree before; `new` are the revisions that only the tree after has.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn stage_tree<'a>(
        &self,
        snapshot: &dyn Snapshot,
        id: &[u8],
        winner: Option<&Winner<'a>>,
        before: &RevisionTree,
        after: &RevisionTree,
        new: Vec<NewLeaf<'a>>,
        keep_bodies: bool,
        batch: &mut Batch,
    ) -> Result<After<'a>> {
        let path = |tree: &RevisionTree, winner: Option<Leaf>| -> BTreeMap<u32, [u8; 16]> {
            let path = winner.map_or_else(Vec::new, |leaf| tree.path(&leaf.revision));
            path.into_iter().skip(1).map(|revision| (revision.generation, revision.hash)).collect()
        };
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
        let mut result = None;
        for leaf in before.leaves() {
            let stays = after.leaf(&leaf.revision).is_some();
            let wins = stays && next.is_some_and(|next| next.revision == leaf.revision);
            let kept = keep_bodies && after.contains(&leaf.revision);
            if let Some(winner) = winner.filter(|winner| winner.leaf.revision == leaf.revision) {
                if wins {
                    result = Some(self.kept_winner(winner, marks));
                } else if stays {
                    self.stage_body(id, leaf.revision, &winner.body(false), batch);
                } else {
                    self.stage_superseded(id, winner, kept, batch)?;
                }
                continue;
            }
            if stays && !wins {
                continue;
            }
            let stored = read_body(snapshot, self.id, id, &leaf.revision)?;
            let Some(bytes) = stored else {
                if wins && leaf.deleted {
                    let (doc, attachments) = (None, Cow::Borrowed(&[][..]));
                    result = Some(After::Gone { doc, revision: leaf.revision, marks, attachments });
                } else if !leaf.deleted {
                    return Err(Error::Damaged(format!("the body of the revision {}", leaf.revision)));
                }
                continue;
            };
            let body = Body::parse(&bytes)?;
            if wins {
                let promoted = NewLeaf {
                    revision: leaf.revision,
                    is_first: false,
                    deleted: leaf.deleted,
                    doc: body.doc.map(|doc| Cow::Owned(doc.as_bytes().to_vec())),
                    attachments: Cow::Owned(body.attachments.to_vec()),
                };
                result = Some(promoted.into_after(marks));
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
                result = Some(leaf.into_after(marks));
            } else {
                self.stage_body(id, leaf.revision, &leaf.body(), batch);
            }
        }
        match (result, next) {
            (Some(after), _) => Ok(after),
            (None, None) => Ok(After::Purged),
            (None, Some(leaf)) => Err(Error::Damaged(format!("the winning revision {}", leaf.revision))),
        }
    }

    /// The same winner as before, with other marks.
    fn kept_winner<'a>(&self, winner: &Winner<'a>, marks: Marks) -> After<'a> {
        let doc = winner.doc.map(|doc| Cow::Borrowed(doc.as_bytes()));
        let attachments = Cow::Borrowed(winner.attachments);
        let revision = winner.leaf.revision;
        match doc {
            Some(doc) if !winner.leaf.deleted => {
                // A first revision that the document gives is not stored.
                let first = Revision::mint(None, false, winner.doc, winner.attachments);
                let revision = (revision != first).then_some(revision);
                After::Live { doc, revision, marks, attachments }
            }
            doc => After::Gone { doc, revision, marks, attachments },
        }
    }
}

/// What a deletion must keep of a document so that its exact `_id` is not lost: nothing, if its key bytes tell it.
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
