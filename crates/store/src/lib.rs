//! The store: a catalog of collections over an ordered key-value engine, and everything both faces need of it.
//!
//! A write goes through [`Collection::insert`] or [`Collection::edit`] and becomes one atomic batch: the record, its
//! index entries, its revision and its entry in the change log. A read goes through a [`ReadView`], which is the
//! collection as of one moment. All of it is synchronous.

pub mod blob;
mod catalog;
mod change;
pub mod check;
mod clock;
mod collection;
mod error;
pub mod exec;
mod feed;
mod index;
pub mod keys;
mod locks;
mod namespace;
mod numbers;
pub mod ops;
mod options;
pub mod plan;
mod record;
mod retry;
mod revision;
pub mod revision_tree;
mod schema_change;
pub mod stats;
mod store;
mod upkeep;
mod views;

pub use catalog::random_uuid;
pub use change::{Change, ChangeKind};
pub use check::{check, validate_collection};
pub use collection::{
    Base, Collection, Edit, IndexEntry, InsertReport, LocalDocument, ReadView, RevisedDocument, RevisionEdit,
    RevisionOutcome, RevisionReport, Schema, StoredDocument, WriteOptions, Written, check_insert,
    document_id, id_key, with_id_in_front,
};
pub use error::{DuplicateKey, Error, Result};
pub use feed::{ChangeRow, DatabaseEvent, DatabaseEventKind, Subscription};
pub use index::{
    BuildProgress, FieldOrder, Index, IndexField, IndexKeys, IndexKind, IndexSpec, same_pattern,
};
pub use namespace::{Namespace, check_database_name};
pub use options::{Capped, CollectionOptions, ValidationLevel, View};
pub use record::Record;
pub use retry::{RememberedStatement, RetryRecord, SessionTurn};
pub use revision::Revision;
pub use revision_tree::{Leaf, RevisionTree};
pub use store::{Entry, ServerState, Store, ViewEntry};
pub use views::TemporaryNumber;

/// How many ancestors of a document's revision are kept (CouchDB's default `_revs_limit`).
pub(crate) const REVISIONS_LIMIT: u32 = 1000;
