//! A collection: documents clustered by `_id`, their revisions, change log and indexes.
//!
//! Invariants:
//! - A write of one document holds that document's lock, then those of the unique keys it takes, then the collection's
//!   sequence while the batch is committed: so changes become visible in the order of their sequences.
//! - A write passes the collection's write gate ([`Collection::begin_write`]) before it looks at the indexes and holds it
//!   until it is committed. A change of the schema closes the gate ([`Collection::stop_writes`]): it waits for the writes
//!   under way, and every later write sees the new schema.
//! - Readers see the schema without passing the gate: a change of the schema does not hold them up.

mod capped;
mod document;
mod entries;
mod expire;
mod history;
mod lineage;
mod local;
mod purge;
mod read;
mod revisions;
mod sequence;
mod settings;
mod stage;
mod write;
mod write_gate;

pub use document::{check_insert, document_id, id_key, with_id_in_front};
pub(crate) use entries::{natural_key, split_unique_value, unique_value};
pub use history::RevisedDocument;
pub use local::LocalDocument;
pub use read::{IndexEntry, ReadView, StoredDocument};
pub(crate) use read::{RawEntry, damaged_entry};
pub use revisions::{Base, RevisionEdit, RevisionOutcome, RevisionReport};
pub(crate) use settings::read_setting;
pub use write::{Edit, InsertReport, WriteOptions, Written};
pub(crate) use write_gate::StoppedWrites;

use crate::catalog::CatalogEntry;
use crate::error::{Error, Result};
use crate::feed::{UpdateFlag, Watchers};
use crate::index::{Index, IndexSpec};
use crate::keys::{self, CollectionId};
use crate::namespace::Namespace;
use crate::options::CollectionOptions;
use crate::store::Shared;
use diwan_kv::{Direction, Engine, KeyRange, Space};
use parking_lot::{Mutex, RwLock};
use sequence::Sequence;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What may change of a collection while it is in use.
#[derive(Clone, Debug)]
pub struct Schema {
    /// The options.
    pub options: Arc<CollectionOptions>,
    /// All indexes, the one on `_id` first, those still being built among them.
    pub indexes: Vec<Arc<Index>>,
    /// The collection was dropped: writes through an old handle are refused.
    pub(crate) dropped: bool,
}

impl Schema {
    /// The indexes with entries of their own: all but the one on `_id`.
    pub(crate) fn secondary(&self) -> &[Arc<Index>] {
        self.indexes.get(1..).unwrap_or_default()
    }

    /// Changes the specification of the index that `which` chooses, but not its entries. Gives the index as it was; `None`
    /// if there is no such index.
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

/// A handle on a collection. Stays valid when the collection is renamed; refuses writes when it is dropped.
pub struct Collection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: CollectionId,
    uuid: [u8; 16],
    created: Option<i64>,
    name: RwLock<Namespace>,
    /// The schema as readers see it; written with the gate closed.
    pub(crate) schema: RwLock<Arc<Schema>>,
    /// Held shared by each write, alone by a change of the schema; holds the schema as writers see it.
    gate: RwLock<Arc<Schema>>,
    pub(crate) sequence: Sequence,
    /// Held by whoever builds indexes, or removes deletions from the change log.
    pub(crate) building: Mutex<()>,
    /// Held while the oldest documents of a capped collection are removed.
    trimming: Mutex<()>,
    /// The greatest id that was ever inserted, or one above it, as key bytes.
    greatest_id: Mutex<Vec<u8>>,
    settings: settings::Settings,
    /// Who waits for changes.
    pub(crate) watchers: Arc<Watchers>,
    /// How often a design document was written or deleted since this was opened.
    designs: AtomicU64,
    /// Whether the store's list of updated databases names it.
    pub(crate) update_flag: UpdateFlag,
}

impl Collection {
    pub(crate) fn open(shared: Arc<Shared>, name: Namespace, entry: CatalogEntry) -> Result<Collection> {
        let capped = entry.options.capped.is_some();
        let sequence = Sequence::recover(shared.engine.as_ref(), entry.id, capped)?;
        let settings = settings::Settings::read(shared.engine.as_ref(), entry.id)?;
        let greatest_id = greatest_id(shared.engine.as_ref(), entry.id)?;
        let schema = Schema { options: entry.options, indexes: entry.indexes, dropped: false };
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
            greatest_id: Mutex::new(greatest_id),
            watchers: Arc::default(),
            designs: AtomicU64::new(0),
            update_flag: UpdateFlag::default(),
            settings,
        })
    }

    /// The collection's name as of now.
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

    /// When it was created, in microseconds since the Unix epoch, if that is known.
    pub fn created(&self) -> Option<i64> {
        self.created
    }

    /// Options and indexes as of now.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.read().clone()
    }

    /// How many documents there are.
    pub fn count(&self) -> u64 {
        self.sequence.count()
    }

    /// How many deleted documents are remembered.
    pub fn deleted_count(&self) -> u64 {
        self.sequence.deleted()
    }

    /// How many bytes of BSON the documents take. Exact while the server runs and after a clean stop; after a kill
    /// counted from the last note of it.
    pub fn data_bytes(&self) -> u64 {
        self.sequence.bytes()
    }

    /// The sequence of the newest change.
    pub fn last_sequence(&self) -> u64 {
        self.sequence.last()
    }

    /// Another number after each change of a design document (one whose id begins with `_design/`). Who asks before taking
    /// a view knows from the same number later that the view's design documents are still those.
    pub fn design_version(&self) -> u64 {
        self.designs.load(Ordering::SeqCst)
    }

    /// The catalog's entry with this schema.
    pub(crate) fn catalog_entry(&self, schema: &Schema) -> CatalogEntry {
        CatalogEntry {
            id: self.id,
            uuid: self.uuid,
            created: self.created,
            options: schema.options.clone(),
            indexes: schema.indexes.clone(),
        }
    }

    /// The numbers under which the collection's keys lie, those of its indexes and views among them.
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

/// The greatest id that a document or a tombstone has.
fn greatest_id(engine: &dyn Engine, collection: CollectionId) -> Result<Vec<u8>> {
    let prefix = keys::collection_prefix(collection);
    let snapshot = engine.snapshot();
    let mut greatest = Vec::new();
    for space in [Space::Records, Space::Revisions] {
        let newest = snapshot.scan(space, KeyRange::prefix(&prefix), Direction::Reverse).next();
        if let Some((key, _)) = newest.transpose()? {
            // What is not a revision's key is still not below its id.
            let rest = &key[prefix.len()..];
            let id = keys::RevisionKey::split(rest).filter(|_| space == Space::Revisions);
            greatest = greatest.max(id.map_or(rest, |(id, _)| id).to_vec());
        }
    }
    Ok(greatest)
}
