//! A collection: documents clustered by `_id`, their revisions, change log and indexes.
//!
//! Invariants:
//! - A writer holds the document's lock, then the locks of the unique keys that it takes, then the collection's
//!   sequence while the batch is committed. So changes become visible in the order of their sequences.
//! - A writer passes the collection's write gate ([`Collection::begin_write`]) before it reads the schema, and holds it
//!   until its batch is committed. A schema change closes the gate ([`Collection::stop_writes`]): it waits for the
//!   running writes, and every later write sees the new schema.
//! - Readers read the schema without passing the gate. A schema change does not block them.
//!
//! Reading order: `read`; `write_gate`, `admission`, `document` and `entries`, the parts of every write; `document_state`, `lineage`
//! and `stage`, which make a change of one document; `write` (MongoDB's edits), `revisions` (CouchDB's edits) and
//! `purge`, which call them; `adopt`, the writes of transactions; `history`, `expire`, `capped`, `local` and `settings`.

mod admission;
mod adopt;
mod capped;
mod document;
mod document_state;
mod entries;
mod expire;
mod follow;
mod history;
mod lineage;
mod local;
mod purge;
mod read;
mod recover;
mod retention;
mod revisions;
mod sequence;
mod settings;
mod stage;
mod write;
mod write_gate;

pub(crate) use adopt::AdoptedChanges;
pub use document::{check_insert, id_key};
pub(crate) use document::{document_id, with_id_in_front};
pub(crate) use entries::{natural_key, split_unique_value, unique_value};
pub(crate) use expire::DueBody;
pub use history::RevisedDocument;
pub use local::LocalDocument;
pub(crate) use read::{IndexEntry, RawEntry, damaged_entry};
pub use read::{ReadView, StoredDocument};
pub(crate) use recover::{Recovered, Recovery};
pub use revisions::{Base, RevisionEdit, RevisionOutcome, RevisionReport};
pub(crate) use sequence::{Note, SequenceState};
pub(crate) use settings::{MARK, read_setting};
pub(crate) use write::design_error;
pub use write::{DesignGuard, Edit, InsertReport, WriteOptions, Written};
pub(crate) use write_gate::StoppedWrites;

use crate::catalog::CatalogEntry;
use crate::error::{Error, Result};
use crate::feed::{UpdateFlag, Watchers};
use crate::index::{Index, IndexSpec};
use crate::keys::CollectionId;
use crate::namespace::Namespace;
use crate::options::CollectionOptions;
use crate::store::Shared;
use parking_lot::{Mutex, RwLock};
use sequence::Sequence;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The options and indexes of a collection. A schema change replaces them as a whole.
#[derive(Clone, Debug)]
pub struct Schema {
    /// The collection's options.
    pub options: Arc<CollectionOptions>,
    /// All indexes, the one on `_id` first. Includes indexes that are being built.
    pub indexes: Vec<Arc<Index>>,
    /// Whether ancestors of revisions and tombstones are kept, for HTTP clients and replicators.
    pub(crate) history: bool,
    /// Changes are recorded as events.
    pub(crate) recorded: bool,
    /// The collection was dropped. Writes through old handles are refused.
    pub(crate) dropped: bool,
}

impl Schema {
    /// The indexes that have entries: all but the one on `_id`.
    pub(crate) fn secondary(&self) -> &[Arc<Index>] {
        self.indexes.get(1..).unwrap_or_default()
    }

    /// Whether a document that was written by another schema could have been written by this one: with the same indexes,
    /// options and history. The entries of a unique index that was being built do not show every key that was taken.
    pub(crate) fn has_same_rules(&self, other: &Schema) -> bool {
        let same_index = |(one, other): (&Arc<Index>, &Arc<Index>)| {
            one.id == other.id
                && one.spec.to_doc() == other.spec.to_doc()
                && (!one.spec.unique || one.is_ready() == other.is_ready())
        };
        self.history == other.history
            && self.indexes.len() == other.indexes.len()
            && self.indexes.iter().zip(&other.indexes).all(same_index)
            && (Arc::ptr_eq(&self.options, &other.options) || self.options.to_doc() == other.options.to_doc())
    }

    /// Whether clients see the same options and indexes. True only if nothing of them was replaced.
    pub(crate) fn shows_the_same_as(&self, other: &Schema) -> bool {
        Arc::ptr_eq(&self.options, &other.options)
            && self.indexes.len() == other.indexes.len()
            && self.indexes.iter().zip(&other.indexes).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Changes the specification of the first index that `which` accepts, but not its entries. Returns the index as it
    /// was; `None` if there is no such index.
    pub fn modify_index(
        &mut self,
        which: impl Fn(&Index) -> bool,
        modified: impl FnOnce(&IndexSpec) -> Result<IndexSpec>,
    ) -> Result<Option<Arc<Index>>> {
        let Some(index) = self.indexes.iter_mut().find(|index| which(index)) else { return Ok(None) };
        let changed = Arc::new(index.respecified(modified(&index.spec)?));
        Ok(Some(std::mem::replace(index, changed)))
    }
}

/// A handle on a collection. It stays valid when the collection is renamed. It refuses writes after a drop.
pub struct Collection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: CollectionId,
    uuid: [u8; 16],
    created: Option<i64>,
    name: RwLock<Namespace>,
    /// The schema that readers see. It is replaced while the gate is closed.
    pub(crate) schema: RwLock<Arc<Schema>>,
    /// The write gate: each writer holds it shared, a schema change exclusively. Holds the schema that writers see.
    gate: RwLock<Arc<Schema>>,
    pub(crate) sequence: Sequence,
    /// Held by an index build, and by the expiry of tombstones, which removes deletions that a build needs from the
    /// log.
    pub(crate) building: Mutex<()>,
    /// Held while the oldest documents of a capped collection are deleted.
    trimming: Mutex<()>,
    /// Where the expiry of tombstones continues, if a round is under way. Upkeep holds the lock while it works.
    expiry: Mutex<Option<expire::Expiry>>,
    /// An upper bound of all ids ever inserted, as key bytes. `None` until it is needed.
    greatest_id: Mutex<Option<Vec<u8>>>,
    settings: settings::Settings,
    /// Whether it is on disk that the collection [keeps history](retention).
    history_durable: AtomicBool,
    /// The subscribers to changes.
    pub(crate) watchers: Arc<Watchers>,
    /// How many writes of design documents were committed since the start.
    designs: AtomicU64,
    /// Whether the store's list of updated databases contains this collection.
    pub(crate) update_flag: UpdateFlag,
    /// The same collection outside, if this is the private one of a transaction that has not created it.
    counterpart: Option<Arc<Collection>>,
}

impl Collection {
    pub(crate) fn open(
        shared: Arc<Shared>,
        name: Namespace,
        entry: CatalogEntry,
        recovered: Recovered,
    ) -> Result<Collection> {
        let capped = entry.options.capped.is_some();
        let Recovered { note, exact, settings } = recovered;
        let sequence = Sequence::recover(shared.engine.as_ref(), entry.id, capped, note, exact)?;
        let greatest_id = (sequence.last() == 0).then(Vec::new);
        let schema = Schema {
            options: entry.options,
            indexes: entry.indexes,
            history: entry.history,
            recorded: shared.events.records(&name),
            dropped: false,
        };
        let schema = Arc::new(schema);
        Ok(Collection {
            shared,
            id: entry.id,
            uuid: entry.uuid,
            created: entry.created,
            name: RwLock::new(name),
            schema: RwLock::new(schema.clone()),
            gate: RwLock::new(schema),
            sequence,
            building: Mutex::new(()),
            trimming: Mutex::new(()),
            expiry: Mutex::default(),
            greatest_id: Mutex::new(greatest_id),
            history_durable: AtomicBool::new(entry.history),
            watchers: Arc::default(),
            designs: AtomicU64::new(0),
            update_flag: UpdateFlag::default(),
            settings: settings::Settings::new(settings),
            counterpart: None,
        })
    }

    /// The collection's current name.
    pub fn namespace(&self) -> Namespace {
        self.name.read().clone()
    }

    pub(crate) fn set_namespace(&self, name: Namespace) {
        *self.name.write() = name;
        self.watchers.wake();
    }

    /// The identifier that clients see.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// When the collection was created, in microseconds since the Unix epoch; `None` if an older version created it.
    pub fn created(&self) -> Option<i64> {
        self.created
    }

    /// The current options and indexes.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.read().clone()
    }

    /// The number of documents.
    pub fn count(&self) -> u64 {
        self.sequence.count()
    }

    /// The number of tombstones of deleted documents.
    pub fn deleted_count(&self) -> u64 {
        self.sequence.deleted()
    }

    /// How many bytes of BSON the documents take.
    pub fn data_bytes(&self) -> u64 {
        self.sequence.bytes()
    }

    /// The sequence of the newest change.
    pub fn last_sequence(&self) -> u64 {
        self.sequence.last()
    }

    /// A number that increases with each change of a design document (one whose id begins with `_design/`). A caller
    /// that reads it before it takes a view, and reads the same number later, knows that the design documents are
    /// unchanged.
    pub fn design_version(&self) -> u64 {
        self.designs.load(Ordering::SeqCst)
    }

    /// The collection's catalog entry with this schema.
    pub(crate) fn catalog_entry(&self, schema: &Schema) -> CatalogEntry {
        CatalogEntry {
            id: self.id,
            uuid: self.uuid,
            created: self.created,
            options: schema.options.clone(),
            indexes: schema.indexes.clone(),
            history: schema.history,
        }
    }

    /// The numbers that prefix the collection's keys: its own, those of its indexes and of its view indexes.
    pub(crate) fn numbers(&self) -> Result<Vec<u32>> {
        let schema = self.schema();
        let indexes = schema.indexes.iter().map(|index| index.id.0);
        let views = self.view_numbers()?;
        Ok(std::iter::once(self.id.0).chain(indexes).chain(views).collect())
    }

    pub(crate) fn dropped_error(&self) -> Error {
        Error::CollectionDropped(self.namespace())
    }
}
