//! Reads the revisions of a document, also those that do not win.

use super::document_state::{DocumentState, RawState, StoredState, Winner};
use super::{Collection, ReadView};
use crate::blob::{Attachment, attachment};
use crate::error::{Error, Result};
use crate::keys::{self, CollectionId, Key, RevisionKey};
use crate::record::Body;
use crate::revision::Revision;
use crate::revision::tree::RevisionTree;
use diwan_kv::{Bytes, Direction, KeyRange, Snapshot, Space};
use diwan_value::{Doc, DocBuf, DocBuilder, Value, key};
use std::ops::Bound;

/// One revision of a document, with its content.
#[derive(Clone, Debug, PartialEq)]
pub struct RevisedDocument {
    /// The revision.
    pub revision: Revision,
    /// Whether the revision is a deletion.
    pub deleted: bool,
    /// The sequence of the document's last change, which may concern another revision.
    pub sequence: u64,
    /// The document, with its `_id` as the first field. A deletion mostly has no other fields.
    pub doc: DocBuf,
    /// The attachments of the revision.
    pub attachments: Vec<Attachment>,
    /// Whether the revision tree has other branches, including deleted ones.
    pub has_branches: bool,
}

impl RevisedDocument {
    /// The document's `_id`.
    pub fn id(&self) -> Value<'_> {
        self.doc.as_doc().get("_id").unwrap_or(Value::Null)
    }
}

impl Collection {
    /// The stored ancestors of a document's winner, newest first.
    pub fn ancestors(&self, id: &[u8]) -> Result<Vec<Revision>> {
        let hashes = read_ancestors(self.shared.engine.snapshot().as_ref(), self.id, id)?;
        Ok(hashes.into_iter().map(|(generation, hash)| Revision { generation, hash }).collect())
    }
}

impl ReadView {
    /// The winning revision of a document, which is a deletion if the document is deleted; `None` if it has no
    /// revision.
    pub fn document(&self, id: &[u8]) -> Result<Option<RevisedDocument>> {
        let current = self.current(id)?;
        revised(id, &current.parse()?)
    }

    /// One revision of a document, if its body is stored. Superseded bodies expire. Bodies that a write from MongoDB
    /// superseded are not kept.
    pub fn revision(&self, id: &[u8], revision: Revision) -> Result<Option<RevisedDocument>> {
        let current = self.current(id)?;
        let stored = current.parse()?;
        let Some(winner) = Winner::of(&stored) else { return Ok(None) };
        if winner.leaf.revision == revision {
            return revised(id, &stored);
        }
        let sequence = stored.sequence();
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
        // A deletion without fields has no stored body.
        let leaf = match winner.marks.branches {
            true => read_tree(self.snapshot(), self.collection().id, id, &winner)?.leaf(&revision),
            false => None,
        };
        leaf.filter(|leaf| leaf.deleted)
            .map(|_| {
                let doc = doc_or_id(id, winner.leaf.as_doc())?.as_doc().get_raw("_id").map(|value| {
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

    /// The revision tree of a document; `None` if it has no revision.
    pub fn tree(&self, id: &[u8]) -> Result<Option<RevisionTree>> {
        let current = self.current(id)?;
        let stored = current.parse()?;
        let winner = Winner::of(&stored);
        winner.map(|winner| read_tree(self.snapshot(), self.collection().id, id, &winner)).transpose()
    }

    fn current(&self, id: &[u8]) -> Result<RawState> {
        let collection = self.collection().id;
        if let Some(bytes) = self.snapshot().get(Space::Records, &Key::Record(collection, id).bytes())? {
            return Ok(DocumentState::Live(bytes));
        }
        let bytes = self.snapshot().get(Space::Revisions, &Key::Tombstone(collection, id).bytes())?;
        Ok(bytes.map_or(DocumentState::Absent, DocumentState::Deleted))
    }
}

fn revised(id: &[u8], stored: &StoredState<'_>) -> Result<Option<RevisedDocument>> {
    let Some(winner) = Winner::of(stored) else { return Ok(None) };
    Ok(Some(RevisedDocument {
        revision: winner.leaf.revision,
        deleted: winner.leaf.deleted,
        sequence: stored.sequence(),
        doc: doc_or_id(id, winner.leaf.as_doc())?,
        attachments: decode_attachments(&winner.leaf.attachments)?,
        has_branches: winner.marks.branches,
    }))
}

pub(super) fn decode_attachments(list: &[u8]) -> Result<Vec<Attachment>> {
    if list.is_empty() { Ok(Vec::new()) } else { attachment::decode(list) }
}

/// The document, or one with only the `_id`, which is restored from its key bytes.
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

/// Reads the value of [`Key::Body`].
pub(super) fn read_body(
    snapshot: &dyn Snapshot,
    collection: CollectionId,
    id: &[u8],
    revision: &Revision,
) -> Result<Option<Bytes>> {
    Ok(snapshot.get(Space::Revisions, &Key::Body(collection, id, *revision).bytes())?)
}

/// Reads the ancestors of the winner, newest first.
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

/// Reads the revision tree of a document.
pub(super) fn read_tree(
    snapshot: &dyn Snapshot,
    collection: CollectionId,
    id: &[u8],
    winner: &Winner<'_>,
) -> Result<RevisionTree> {
    let ancestors: Vec<[u8; 16]> =
        read_ancestors(snapshot, collection, id)?.into_iter().map(|(_, hash)| hash).collect();
    let mut tree = RevisionTree::of_path(winner.leaf.in_tree(), &ancestors);
    if winner.marks.branches {
        let bytes = snapshot.get(Space::Revisions, &Key::Branches(collection, id).bytes())?;
        let bytes =
            bytes.ok_or_else(|| Error::Damaged("the branches of a document are missing".to_owned()))?;
        tree.add_branches(&bytes)?;
    }
    Ok(tree)
}
