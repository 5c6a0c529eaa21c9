//! What a check tells: how far it has come, what it verified, what it found.

use std::fmt;

/// How far a check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The collection at hand, as `database.collection`; empty before the first.
    pub namespace: &'a str,
    /// Which part of it is being read.
    pub part: Part<'a>,
    /// How many keys of the part have been read.
    pub done: u64,
    /// How many there should be, where that is known beforehand.
    pub total: Option<u64>,
}

/// A part of what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Part<'a> {
    Catalog,
    Documents,
    Changes,
    Index(&'a str),
    InsertionOrder,
    Attachments,
    Orphans,
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Catalog => f.write_str("catalog"),
            Part::Documents => f.write_str("documents"),
            Part::Changes => f.write_str("changes"),
            Part::Index(name) => write!(f, "index {name}"),
            Part::InsertionOrder => f.write_str("insertion order"),
            Part::Attachments => f.write_str("attachments"),
            Part::Orphans => f.write_str("keys without owner"),
        }
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// The engine could not read something: a damaged block or file.
    Unreadable,
    /// The format record, a catalog document or a number given out.
    Catalog,
    /// A record's header, its document, or its key.
    Record,
    /// A document's change is missing or tells of something else.
    MissingChange,
    /// A change of no document and no tombstone.
    StrayChange,
    /// The newest change tells another number of documents than there are.
    Count,
    /// A document has no entry in an index that it belongs to, or a wrong one.
    MissingEntry,
    /// An entry of an index that its document does not have.
    StrayEntry,
    /// An index meets arrays and does not know it.
    Multikey,
    /// A revision's ancestors, its branches, their bodies, or a tombstone.
    Revision,
    /// A list of attachments, a blob, or who refers to it.
    Attachment,
    /// The order of a capped collection.
    InsertionOrder,
    /// The remembered result of a retryable write.
    RetryRecord,
    /// Keys that belong to nothing in the catalog.
    Orphan,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub kind: FindingKind,
    /// The collection, as `database.collection`, if it belongs to one.
    pub namespace: Option<String>,
    /// The index's name, if it is about one.
    pub index: Option<String>,
    /// What is wrong, in words.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            f.write_str(namespace)?;
            if let Some(index) = &self.index {
                write!(f, ", index {index}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.detail)
    }
}

/// How many findings are kept in words; the others are only counted, so that memory stays bounded.
const MAX_LISTED: usize = 1000;

/// What was found, the first thousand in words.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// In the order in which they were found.
    pub listed: Vec<Finding>,
    /// How many there are in all.
    pub count: u64,
}

impl Findings {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn add(&mut self, finding: Finding) {
        self.count += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(finding);
        }
    }

    fn append(&mut self, other: &Findings) {
        self.count += other.count;
        let room = MAX_LISTED.saturating_sub(self.listed.len());
        self.listed.extend(other.listed.iter().take(room).cloned());
    }
}

/// What was verified of an index.
#[derive(Clone, Debug)]
pub struct IndexReport {
    /// Its name.
    pub name: String,
    /// How many entries it has; the index on `_id` has one a document.
    pub entries: u64,
    /// Whether it was checked: one that is being built or dropped is not.
    pub checked: bool,
    /// How many findings are about it.
    pub findings: u64,
}

/// What was verified and found of a collection.
#[derive(Clone, Debug, Default)]
pub struct CollectionReport {
    /// The collection, as `database.collection`.
    pub namespace: String,
    /// How many documents it holds.
    pub documents: u64,
    /// How many bytes of BSON they take.
    pub bytes: u64,
    /// How many of them do not read as documents with an `_id`.
    pub invalid: u64,
    /// How many of them the validator would refuse; that is no damage.
    pub nonconforming: u64,
    /// How many changes its log holds.
    pub changes: u64,
    /// How many deleted documents are remembered.
    pub tombstones: u64,
    /// How many earlier revisions are remembered.
    pub ancestors: u64,
    /// How many bodies are stored of revisions that do not win.
    pub other_bodies: u64,
    /// Its indexes, the one on `_id` first.
    pub indexes: Vec<IndexReport>,
    /// What is wrong.
    pub findings: Findings,
}

/// What was verified and found of a store.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Every collection, by name.
    pub collections: Vec<CollectionReport>,
    /// How many views there are.
    pub views: u64,
    /// How many results of retryable writes are remembered.
    pub retry_records: u64,
    /// What is wrong, of the collections and beside them.
    pub findings: Findings,
}

impl CheckReport {
    pub(super) fn add(&mut self, collection: CollectionReport) {
        self.findings.append(&collection.findings);
        self.collections.push(collection);
    }
}
