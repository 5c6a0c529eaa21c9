//! Reading the revisions of a document, also those that do not win.

use super::lineage::Winner;
use super::stage::{Before, Current};
use super::{Collection, ReadView};
use crate::blob::{Attachment, attachment};
use crate::error::{Error, Result};
use crate::keys::{self, CollectionId, Key, RevisionKey};
use crate::record::Body;
use crate::revision::Revision;
use crate::revision_tree::RevisionTree;
use diwan_kv::{Bytes, Direction, KeyRange, Snapshot, Space};
use diwan_value::{Doc, DocBuf, DocBuilder, Value, key};
use std::ops::Bound;

/// One revision of a document, with what it left.
#[derive(Clone, Debug, PartialEq)]
pub struct RevisedDocument {
    /// Which revision.
    pub revision: Revision,
    /// Whether it is a deletion.
    pub deleted: bool,
    /// The sequence of the document's last change, whichever revision that was about.
    pub sequence: u64,
    /// The document, `_id` first. A deletion mostly has nothing else.
    pub doc: DocBuf,
    /// Its attachments.
    pub attachments: Vec<Attachment>,
    /// Whether there are other branches of revisions, deleted ones included.
    pub has_branches: bool,
}

impl RevisedDocument {
    /// The document's `_id`.
    pub fn id(&self) -> Value<'_> {
        self.doc.as_doc().get("_id").unwrap_or(Value::Null)
    }
}

impl Collection {
    /// The revisions that led to a document's present one, newest first, as far as they are kept.
    pub fn ancestors(&self, id: &[u8]) -> Result<Vec<Revision>> {
        let hashes = read_ancestors(self.shared.engine.snapshot().as_ref(), self.id, id)?;
        Ok(hashes.into_iter().map(|(generation, hash)| Revision { generation, hash }).collect())
    }
}

impl ReadView {
    /// The winning revision of a document, a deletion if it is deleted; `None` if there is no revision at all.
    pub fn document(&self, id: &[u8]) -> Result<Option<RevisedDocument>> {
        let current = self.current(id)?;
        revised(id, &current.read()?)
    }

    /// One revision of a document, if its body is kept. Bodies of revisions that were superseded, and all of those
    /// that MongoDB clients superseded, go in time.
    pub fn revision(&self, id: &[u8], revision: Revision) -> Result<Option<RevisedDocument>> {
        let current = self.current(id)?;
        let before = current.read()?;
        let Some(winner) = Winner::of(&before) else { return Ok(None) };
        if winner.leaf.revision == revision {
            return revised(id, &before);
        }
        let sequence = sequence_of(&before);
        let has_branches = winner.marks.branches;
        if let Some(bytes) = read_body(self.snapshot(), self.collection().id, id, &revision)? {
            let body = Body::parse(&bytes)?;
            return Ok(Some(RevisedDocument {
                revision,
                deleted: body.deleted,
                sequence,
                doc: doc_or_id(id, body.doc)?,
                attachments: decode_attachments(body.attachments)?,
                has_branches,
            }));
        }
        // A deletion that left nothing has no body of its own.
        let leaf = match winner.marks.branches {
            true => read_tree(self.snapshot(), self.collection().id, id, &winner)?.leaf(&revision),
            false => None,
        };
        leaf.filter(|leaf| leaf.deleted)
            .map(|_| {
                let doc = doc_or_id(id, winner.doc)?.as_doc().get_raw("_id").map(|value| {
                    let mut out = DocBuilder::new();
                    out.append_raw(b"_id", value);
                    out.finish()
                });
                Ok(RevisedDocument {
                    revision,
                    deleted: true,
                    sequence,
                    doc: doc.unwrap_or_default(),
                    attachments: Vec::new(),
                    has_branches,
                })
            })
            .transpose()
    }

    /// All that is known of a document's revisions; `None` if there is none.
    pub fn tree(&self, id: &[u8]) -> Result<Option<RevisionTree>> {
        let current = self.current(id)?;
        let before = current.read()?;
        let winner = Winner::of(&before);
        winner.map(|winner| read_tree(self.snapshot(), self.collection().id, id, &winner)).transpose()
    }

    fn current(&self, id: &[u8]) -> Result<Current> {
        let collection = self.collection().id;
        if let Some(bytes) = self.snapshot().get(Space::Records, &Key::Record(collection, id).bytes())? {
            return Ok(Current::Live(bytes));
        }
        let bytes = self.snapshot().get(Space::Revisions, &Key::Tombstone(collection, id).bytes())?;
        Ok(bytes.map_or(Current::Absent, Current::Gone))
    }
}

fn sequence_of(before: &Before<'_>) -> u64 {
    match before {
        Before::Absent => 0,
        Before::Live(record) => record.sequence,
        Before::Gone(tombstone) => tombstone.sequence,
    }
}

fn revised(id: &[u8], before: &Before<'_>) -> Result<Option<RevisedDocument>> {
    let Some(winner) = Winner::of(before) else { return Ok(None) };
    Ok(Some(RevisedDocument {
        revision: winner.leaf.revision,
        deleted: winner.leaf.deleted,
        sequence: sequence_of(before),
        doc: doc_or_id(id, winner.doc)?,
        attachments: decode_attachments(winner.attachments)?,
        has_branches: winner.marks.branches,
    }))
}

pub(super) fn decode_attachments(list: &[u8]) -> Result<Vec<Attachment>> {
    if list.is_empty() { Ok(Vec::new()) } else { attachment::decode(list) }
}

/// The document, or one of the `_id` that its key bytes tell.
fn doc_or_id(id: &[u8], doc: Option<Doc<'_>>) -> Result<DocBuf> {
    if let Some(doc) = doc {
        return Ok(doc.to_owned());
    }
    let value = key::decode(id, &[], &[key::Direction::Ascending]).and_then(|mut values| values.pop());
    let value = value.ok_or_else(|| Error::Damaged("the id of a tombstone".to_owned()))?;
    let mut out = DocBuilder::new();
    out.append("_id", value.as_value());
    Ok(out.finish())
}

/// The bytes of [`Key::Body`].
pub(super) fn read_body(
    snapshot: &dyn Snapshot,
    collection: CollectionId,
    id: &[u8],
    revision: &Revision,
) -> Result<Option<Bytes>> {
    Ok(snapshot.get(Space::Revisions, &Key::Body(collection, id, *revision).bytes())?)
}

/// The ancestors of the winner, newest first.
fn read_ancestors(
    snapshot: &dyn Snapshot,
    collection: CollectionId,
    id: &[u8],
) -> Result<Vec<(u32, [u8; 16])>> {
    let prefix = [keys::collection_prefix(collection).as_slice(), id].concat();
    let range = KeyRange::new(
        Bound::Included(Key::Ancestor(collection, id, 1).bytes().into()),
        Bound::Excluded(Key::Branches(collection, id).bytes().into()),
    );
    let mut ancestors = Vec::new();
    for pair in snapshot.scan(Space::Revisions, range, Direction::Reverse) {
        let (key, value) = pair?;
        let damaged = || Error::Damaged(keys::describe(Space::Revisions, &key));
        let suffix = key.get(prefix.len()..).ok_or_else(damaged)?;
        let Some(RevisionKey::Ancestor(generation)) = RevisionKey::parse(suffix) else {
            return Err(damaged());
        };
        ancestors.push((generation, <[u8; 16]>::try_from(&*value).map_err(|_| damaged())?));
    }
    Ok(ancestors)
}

/// The whole tree of a document.
pub(super) fn read_tree(
    snapshot: &dyn Snapshot,
    collection: CollectionId,
    id: &[u8],
    winner: &Winner<'_>,
) -> Result<RevisionTree> {
    let ancestors: Vec<[u8; 16]> =
        read_ancestors(snapshot, collection, id)?.into_iter().map(|(_, hash)| hash).collect();
    let mut tree = RevisionTree::of_path(winner.leaf, &ancestors);
    if winner.marks.branches {
        let bytes = snapshot.get(Space::Revisions, &Key::Branches(collection, id).bytes())?;
        let bytes =
            bytes.ok_or_else(|| Error::Damaged("the branches of a document are missing".to_owned()))?;
        tree.add_branches(&bytes)?;
    }
    Ok(tree)
}
