//! The store: a catalog of collections over an ordered key-value engine, and all that both faces need of it.
//!
//! A write goes through [`Collection::insert`], [`Collection::edit`] or [`Collection::edit_revisions`] and becomes one
//! atomic batch: the record, its index entries, its revision and its entry in the change log. A read goes through a
//! [`ReadView`], which shows the collection as of one moment. All of it is synchronous.
//!
//! Reading order: each group builds on those above it.
//! - What is stored: [`keys`], [`Record`], [`Change`], [`Revision`], [`RevisionTree`], and the catalog documents with
//!   their parts ([`Namespace`], [`CollectionOptions`], [`IndexSpec`]).
//! - What excludes what: `locks`, `schema_change`, `numbers`, and the write gate of a collection. Other processes: `shared_store`, `follow`.
//! - [`Collection`]: reads, writes and revisions of documents; its indexes (`index`), attachments ([`blob`]) and
//!   followers (`feed`).
//! - Queries: [`plan`] chooses how to find documents, [`exec`] finds them, [`ops`] holds the operations that the faces
//!   call.
//! - `transaction`: a private store over a snapshot, whose writes are committed as a whole.
//! - [`Store`]: the catalog in memory, schema changes by name, and `upkeep`, the tasks in the background. [`check()`]
//!   verifies all of it. [`incoming`] marks a store that is being filled with the pairs of another.
//!
//! `Collection` holds the state that all collections share (`store::Shared`), and `Store` holds the collections. This
//! is the one cycle between the groups.

pub mod blob;
mod catalog;
mod change;
pub mod check;
mod clock;
mod collection;
mod error;
pub mod events;
pub mod exec;
mod feed;
mod follow;
pub mod incoming;
mod index;
pub mod keys;
mod locks;
mod namespace;
mod numbers;
pub mod ops;
mod options;
pub mod plan;
mod record;
pub mod replica;
mod retry;
mod revision;
mod schema_change;
mod shared_store;
pub mod slow;
pub mod stats;
mod store;
mod transaction;
mod upkeep;
mod views;

pub use catalog::random_uuid;
pub use change::{Change, ChangeKind};
pub use check::{check, validate_collection};
pub use collection::{
    Base, Collection, DesignGuard, Edit, InsertReport, LocalDocument, ReadView, RevisedDocument,
    RevisionEdit, RevisionOutcome, RevisionReport, Schema, StoredDocument, WriteOptions, Written,
    check_insert, id_key,
};
pub use diwan_query::{MemoryPool, Reservation};
pub use error::{DuplicateKey, Error, Result};
pub use feed::{ChangeRow, DatabaseEvent, DatabaseEventKind, Subscription};
pub use index::{
    BuildProgress, FieldOrder, Index, IndexField, IndexKeys, IndexKind, IndexSpec, same_pattern,
};
pub use namespace::{Namespace, check_database_name};
pub use options::{Capped, CollectionOptions, View};
pub use record::Record;
pub use retry::{RememberedStatement, RetryRecord, SessionTurn};
pub use revision::Revision;
pub use revision::tree::{Leaf, RevisionTree};
pub use store::{Entry, ServerState, Store, ViewEntry};
pub use transaction::{Claimant, MAX_WAITING_WRITERS, Transaction, TransactionOrigin};
pub use views::TemporaryNumber;

/// How many revisions of each branch are kept unless a collection sets another limit (CouchDB's default `_revs_limit`).
pub(crate) const REVISIONS_LIMIT: u32 = 1000;
