//! The reports of a check: its progress, what it verified, and its findings.

use std::fmt;

/// The progress of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The collection that is being checked, as `database.collection`; empty before the first.
    pub namespace: &'a str,
    /// The part that is being read.
    pub part: Part<'a>,
    /// How many keys of the part have been read.
    pub done: u64,
    /// How many keys the part should have, if that is known.
    pub total: Option<u64>,
}

/// A part of a check.
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

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// The engine could not read something: a damaged block or file.
    Unreadable,
    /// The format record, a catalog document or an allocated number.
    Catalog,
    /// A record's header, its document, or its key.
    Record,
    /// A document's change is missing or belongs to another document.
    MissingChange,
    /// A change that belongs to no document or tombstone.
    StrayChange,
    /// The newest change has another count of documents or tombstones than the collection.
    Count,
    /// A document's entry in an index is missing or wrong.
    MissingEntry,
    /// An entry of an index that belongs to no document.
    StrayEntry,
    /// The catalog lacks a multikey bit of an index.
    Multikey,
    /// A revision's ancestors, its branches, their bodies, or a tombstone.
    Revision,
    /// A list of attachments, a blob, or its references.
    Attachment,
    /// The order of insertion of a capped collection.
    InsertionOrder,
    /// The record of a retryable write.
    RetryRecord,
    /// Keys whose owner is not in the catalog.
    Orphan,
}

/// A finding: something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The collection that it concerns, as `database.collection`, if any.
    pub namespace: Option<String>,
    /// The name of the index that it concerns, if any.
    pub index: Option<String>,
    /// A description.
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

/// How many findings are listed. Further ones are only counted, so that memory stays bounded.
const MAX_LISTED: usize = 1000;

/// The findings of a check. The first thousand are listed.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// In the order in which they were found.
    pub listed: Vec<Finding>,
    /// The number of all findings.
    pub count: u64,
}

impl Findings {
    /// Whether there are no findings.
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
        let free = MAX_LISTED.saturating_sub(self.listed.len());
        self.listed.extend(other.listed.iter().take(free).cloned());
    }
}

/// The report on an index.
#[derive(Clone, Debug)]
pub struct IndexReport {
    /// Its name.
    pub name: String,
    /// How many entries it has. The index on `_id` counts one for each document.
    pub entries: u64,
    /// Whether it was checked. An index that is being built or dropped is not.
    pub checked: bool,
    /// How many findings concern it.
    pub findings: u64,
}

/// The report on a collection.
#[derive(Clone, Debug, Default)]
pub struct CollectionReport {
    /// The collection, as `database.collection`.
    pub namespace: String,
    /// How many documents it holds.
    pub documents: u64,
    /// How many bytes of BSON they take.
    pub bytes: u64,
    /// How many of them cannot be parsed as documents with an `_id`.
    pub invalid: u64,
    /// How many of them the validator would refuse. This is no damage.
    pub nonconforming: u64,
    /// How many changes its log holds.
    pub changes: u64,
    /// How many tombstones of deleted documents it has.
    pub tombstones: u64,
    /// How many ancestors of revisions are stored.
    pub ancestors: u64,
    /// How many bodies of revisions that do not win are stored.
    pub other_bodies: u64,
    /// Its indexes, the one on `_id` first.
    pub indexes: Vec<IndexReport>,
    /// The findings.
    pub findings: Findings,
}

/// The report on a store.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Every collection, by name.
    pub collections: Vec<CollectionReport>,
    /// How many views there are.
    pub views: u64,
    /// How many records of retryable writes are stored.
    pub retry_records: u64,
    /// All findings, including those of the collections.
    pub findings: Findings,
}

impl CheckReport {
    pub(super) fn add(&mut self, collection: CollectionReport) {
        self.findings.append(&collection.findings);
        self.collections.push(collection);
    }
}
