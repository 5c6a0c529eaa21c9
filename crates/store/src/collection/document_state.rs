//! The types that carry one document through a change, in the order in which a change uses them.
//!
//! 1. [`RawState`]: the document's stored bytes, read under the document's lock.
//! 2. [`StoredState`]: the same bytes, parsed into a record or a tombstone.
//! 3. [`Winner`]: the winning revision of that state. It is a leaf of the revision tree with its
//!    content ([`LeafContent`]), and the marks that the header carries about the rest of the tree. An edit makes a new
//!    [`LeafContent`].
//! 4. [`NextState`]: what replaces the stored state: the winner of the tree after the edit.
//! 5. [`StagedChange`](super::stage::StagedChange): the next state, with the facts about the stored state that the commit
//!    needs. Only the sequence is missing; [`Collection::commit`](super::Collection::commit) assigns it.
//!
//! An edit over HTTP may end before step 4, for example with a conflict: see `EditPlan` in `revisions.rs`.

use crate::clock;
use crate::error::Result;
use crate::record::{Body, Marks, Record, Tombstone};
use crate::revision::Revision;
use crate::revision::tree;
use diwan_kv::Bytes;
use diwan_value::Doc;
use std::borrow::Cow;

/// The state of one document in the store.
pub(super) enum DocumentState<R, T> {
    /// Neither a record nor a tombstone: the document never existed, or its tombstone has expired.
    Absent,
    /// A record: the document exists.
    Live(R),
    /// A tombstone: the document was deleted or purged.
    Deleted(T),
}

/// A document's state as the bytes that the engine stores.
pub(super) type RawState = DocumentState<Bytes, Bytes>;

/// A document's state, parsed from a [`RawState`].
pub(super) type StoredState<'a> = DocumentState<Record<'a>, Tombstone<'a>>;

impl RawState {
    /// How many bytes are stored.
    pub fn len(&self) -> usize {
        match self {
            DocumentState::Absent => 0,
            DocumentState::Live(bytes) | DocumentState::Deleted(bytes) => bytes.len(),
        }
    }

    pub fn parse(&self) -> Result<StoredState<'_>> {
        Ok(match self {
            DocumentState::Absent => DocumentState::Absent,
            DocumentState::Live(bytes) => DocumentState::Live(Record::parse(bytes)?),
            DocumentState::Deleted(bytes) => DocumentState::Deleted(Tombstone::parse(bytes)?),
        })
    }
}

impl<'a> StoredState<'a> {
    /// The record, if the document exists.
    pub fn record(&self) -> Option<&Record<'a>> {
        match self {
            DocumentState::Live(record) => Some(record),
            DocumentState::Absent | DocumentState::Deleted(_) => None,
        }
    }

    /// The sequence of the document's last change; 0 if it has none.
    pub fn sequence(&self) -> u64 {
        match self {
            DocumentState::Absent => 0,
            DocumentState::Live(record) => record.sequence,
            DocumentState::Deleted(tombstone) => tombstone.sequence,
        }
    }
}

/// A leaf of the revision tree, with its content.
#[derive(Clone)]
pub(super) struct LeafContent<'a> {
    pub revision: Revision,
    /// The revision is the document's first one, which is computed from the document's bytes. The record does not store it.
    pub is_first: bool,
    /// The revision is a deletion.
    pub deleted: bool,
    /// The document as BSON. A deletion may have none.
    pub doc: Option<Cow<'a, [u8]>>,
    /// The encoded list of attachments; empty if there are none.
    pub attachments: Cow<'a, [u8]>,
}

impl LeafContent<'_> {
    /// The document; a deletion may have none.
    pub fn as_doc(&self) -> Option<Doc<'_>> {
        self.doc.as_deref().map(Doc::trusted)
    }

    /// The leaf as the revision tree holds it, without its content.
    pub fn in_tree(&self) -> tree::Leaf {
        tree::Leaf { revision: self.revision, deleted: self.deleted }
    }

    /// The body to store under the leaf's revision: the body of a conflict, or of a revision that this change supersedes.
    pub fn body(&self, superseded: bool) -> Body<'_> {
        Body {
            deleted: self.deleted,
            superseded_at: superseded.then(clock::now_seconds),
            attachments: &self.attachments,
            doc: self.as_doc(),
        }
    }
}

/// The leaf that readers see: the one with the greatest revision among the leaves that are not deletions, or among all
/// leaves if every one is a deletion.
pub(super) struct Winner<'a> {
    pub leaf: LeafContent<'a>,
    /// The header's marks about the rest of the tree.
    pub marks: Marks,
}

impl<'a> Winner<'a> {
    /// The winner of a stored document; `None` if it has no revision.
    pub fn of(state: &StoredState<'a>) -> Option<Winner<'a>> {
        match state {
            DocumentState::Live(record) => Some(Winner::of_record(record)),
            DocumentState::Deleted(tombstone) if !tombstone.is_purged() => {
                Some(Winner::of_tombstone(tombstone))
            }
            DocumentState::Absent | DocumentState::Deleted(_) => None,
        }
    }

    pub fn of_record(record: &Record<'a>) -> Winner<'a> {
        let leaf = LeafContent {
            revision: record.revision(),
            is_first: record.has_first_revision(),
            deleted: false,
            doc: Some(Cow::Borrowed(record.doc.as_bytes())),
            attachments: Cow::Borrowed(record.attachments),
        };
        Winner { leaf, marks: record.marks }
    }

    pub fn of_tombstone(tombstone: &Tombstone<'a>) -> Winner<'a> {
        let leaf = LeafContent {
            revision: tombstone.revision,
            is_first: false,
            deleted: true,
            doc: tombstone.doc.map(|doc| Cow::Borrowed(doc.as_bytes())),
            attachments: Cow::Borrowed(tombstone.attachments),
        };
        Winner { leaf, marks: tombstone.marks }
    }
}

/// The state of a document after a change. The commit adds the sequence.
pub(super) enum NextState<'a> {
    /// A record with this document (as BSON). The revision is `None` if it is the document's first one.
    Live { doc: Cow<'a, [u8]>, revision: Option<Revision>, marks: Marks, attachments: Cow<'a, [u8]> },
    /// A tombstone of a deleted document.
    Deleted { doc: Option<Cow<'a, [u8]>>, revision: Revision, marks: Marks, attachments: Cow<'a, [u8]> },
    /// A tombstone without a revision. It stays only because the change log has an entry for it.
    Purged,
}

impl NextState<'_> {
    /// The document that readers see.
    pub fn doc(&self) -> Option<Doc<'_>> {
        match self {
            NextState::Live { doc, .. } => Some(Doc::trusted(doc)),
            NextState::Deleted { .. } | NextState::Purged => None,
        }
    }
}

impl<'a> From<Winner<'a>> for NextState<'a> {
    fn from(Winner { leaf, marks }: Winner<'a>) -> NextState<'a> {
        let LeafContent { revision, is_first, deleted, doc, attachments } = leaf;
        match doc {
            Some(doc) if !deleted => {
                NextState::Live { doc, revision: (!is_first).then_some(revision), marks, attachments }
            }
            doc => NextState::Deleted { doc, revision, marks, attachments },
        }
    }
}
