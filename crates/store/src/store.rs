//! The catalog of a store: which collections and views there are, and how they come and go.

use crate::blob::Blobs;
use crate::catalog::{CatalogEntry, FORMAT_VERSION, random_uuid};
use crate::clock;
use crate::collection::{Collection, Schema, StoppedWrites};
use crate::error::{Error, Result};
use crate::feed::{DatabaseEventKind, DatabaseFeed};
use crate::index::{Index, IndexSpec};
use crate::keys::{self, CollectionId, IndexId, Key, read_number};
use crate::locks::LockTable;
use crate::namespace::Namespace;
use crate::numbers::Numbers;
use crate::options::{CollectionOptions, View};
use crate::retry::{RememberedStatement, RetryTable, SessionTurn};
use crate::schema_change::{SchemaChange, format_value};
use crate::upkeep::Upkeep;
use diwan_kv::{Batch, Direction, Engine, KeyRange, Space};
use diwan_query::code;
use diwan_value::{Doc, DocBuf};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// What all collections of a store share.
pub(crate) struct Shared {
    pub engine: Arc<dyn Engine>,
    /// Locks over `_id`s.
    pub documents: LockTable,
    /// Locks over keys of unique indexes.
    pub unique_keys: LockTable,
    /// Blobs in use beside those that documents refer to.
    pub blobs: Blobs,
    /// Which collections came, changed and went.
    pub databases: DatabaseFeed,
    /// Held during a [change of the schema](crate::schema_change).
    pub schema_changes: Mutex<()>,
    /// The numbers of collections and indexes, and the lock of the catalog.
    pub numbers: Numbers,
}

/// A view: it reads a collection through a pipeline.
#[derive(Debug)]
pub struct ViewEntry {
    /// Its name.
    pub namespace: Namespace,
    /// The identifier that clients see.
    pub uuid: [u8; 16],
    /// What it shows.
    pub view: View,
    /// The options it was created with.
    pub options: Arc<CollectionOptions>,
}

/// What a name stands for.
#[derive(Clone)]
pub enum Entry {
    /// A collection.
    Collection(Arc<Collection>),
    /// A view.
    View(Arc<ViewEntry>),
}

impl Entry {
    /// The options it was created with.
    pub fn options(&self) -> Arc<CollectionOptions> {
        match self {
            Entry::Collection(collection) => collection.schema().options.clone(),
            Entry::View(view) => view.options.clone(),
        }
    }

    /// The identifier that clients see.
    pub fn uuid(&self) -> [u8; 16] {
        match self {
            Entry::Collection(collection) => collection.uuid(),
            Entry::View(view) => view.uuid,
        }
    }
}

/// What the server in front of a store knows, for the stages that show it.
pub trait ServerState: Send + Sync {
    /// The operations under way, for `$currentOp` with these options.
    fn operations(&self, spec: Doc<'_>) -> Vec<DocBuf>;

    /// The sessions, for `$listSessions`.
    fn sessions(&self) -> Vec<DocBuf>;

    /// The server's name and port.
    fn host(&self) -> String;
}

/// A store: all databases of one engine.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    entries: Arc<RwLock<BTreeMap<Namespace, Entry>>>,
    retries: Arc<RetryTable>,
    upkeep: Upkeep,
    server: OnceLock<Box<dyn ServerState>>,
}

/// The names after `system.` that clients may create.
const SYSTEM_COLLECTIONS: [&str; 2] = ["js", "profile"];

impl Store {
    /// Opens the store that the engine holds, or begins a new one.
    pub fn open(engine: Arc<dyn Engine>) -> Result<Arc<Store>> {
        let next = match engine.get(Space::Meta, &Key::Format.bytes())? {
            None => {
                let mut batch = Batch::new();
                batch.take_reserve();
                batch.require_absent(Space::Meta, Key::Format.bytes());
                batch.put(Space::Meta, Key::Format.bytes(), format_value(1));
                engine.commit(batch)?;
                1
            }
            Some(value) => read_format(&value)?,
        };
        let shared = Arc::new(Shared {
            engine,
            documents: LockTable::new(),
            unique_keys: LockTable::new(),
            blobs: Blobs::default(),
            databases: DatabaseFeed::new(),
            schema_changes: Mutex::new(()),
            numbers: Numbers::new(next),
        });
        let mut entries = BTreeMap::new();
        let snapshot = shared.engine.snapshot();
        for pair in snapshot.scan(Space::Meta, KeyRange::prefix(keys::catalog_prefix()), Direction::Forward) {
            let (key, value) = pair?;
            let (namespace, entry) = load_entry(&shared, &key, &value)?;
            entries.insert(namespace, entry);
        }
        let mut dropped = Vec::new();
        for pair in snapshot.scan(Space::Meta, KeyRange::prefix(b"x"), Direction::Forward) {
            let (key, _) = pair?;
            let number = read_number(&key[1..]).and_then(|(number, _)| u32::try_from(number).ok());
            dropped.push(number.ok_or_else(|| Error::Damaged("a dropped number".into()))?);
        }
        drop(snapshot);
        // An index that was being built when the server stopped was never promised to anybody; one that was being
        // dropped is dead already.
        for entry in entries.values() {
            if let Entry::Collection(collection) = entry {
                collection.remove_indexes(|index| !index.is_ready() || dropped.contains(&index.id.0))?;
            }
        }
        shared.delete_later(dropped);
        for (namespace, _) in entries.iter().filter(|(_, entry)| matches!(entry, Entry::Collection(_))) {
            shared.databases.note(DatabaseEventKind::Created, namespace);
        }
        let entries = Arc::new(RwLock::new(entries));
        let retries = Arc::new(RetryTable::default());
        let upkeep = Upkeep::start(shared.clone(), entries.clone(), retries.clone());
        let store = Arc::new(Store { shared, entries, retries, upkeep, server: OnceLock::new() });
        store.drop_unfinished()?;
        Ok(store)
    }

    /// Drops what a kill left of collections that `$out` was writing.
    fn drop_unfinished(&self) -> Result<()> {
        let names: Vec<Namespace> = self.entries.read().keys().cloned().collect();
        for name in names.iter().filter(|name| name.collection.starts_with(crate::ops::TEMPORARY_PREFIX)) {
            self.drop_collection(name)?;
        }
        Ok(())
    }

    /// Says who tells of operations and sessions. Only the first call counts.
    pub fn set_server_state(&self, server: Box<dyn ServerState>) {
        let _ = self.server.set(server);
    }

    pub(crate) fn server_state(&self) -> Option<&dyn ServerState> {
        self.server.get().map(AsRef::as_ref)
    }

    /// The engine below.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.shared.engine
    }

    /// What a name stands for.
    pub fn entry(&self, namespace: &Namespace) -> Option<Entry> {
        self.entries.read().get(namespace).cloned()
    }

    /// The collection of that name; a view is refused, nothing is `None`.
    pub fn collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        match self.entry(namespace) {
            None => Ok(None),
            Some(Entry::Collection(collection)) => Ok(Some(collection)),
            Some(Entry::View(_)) => Err(Error::refused(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                format!("Namespace {namespace} is a view, not a collection"),
            )),
        }
    }

    /// The collection of that name, created without options if there is none.
    pub fn collection_or_create(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        loop {
            if let Some(collection) = self.collection(namespace)? {
                return Ok(collection);
            }
            match self.create_collection(namespace, Doc::EMPTY) {
                // Another client created it meanwhile.
                Err(Error::Query(error)) if error.code == code::NAMESPACE_EXISTS => {}
                outcome => return outcome,
            }
        }
    }

    /// Creates a collection. The one that is returned may have been dropped since.
    pub fn create_collection(&self, namespace: &Namespace, options: Doc<'_>) -> Result<Arc<Collection>> {
        match self.create(namespace, options)? {
            Entry::Collection(collection) => Ok(collection),
            Entry::View(_) => Err(Error::refused(code::INVALID_OPTIONS, "these are the options of a view")),
        }
    }

    /// Creates a collection or a view.
    pub fn create(&self, namespace: &Namespace, options: Doc<'_>) -> Result<Entry> {
        if let Some(name) = namespace.collection.strip_prefix("system.")
            && !SYSTEM_COLLECTIONS.contains(&name)
        {
            return Err(Error::refused(
                code::INVALID_NAMESPACE,
                format!("Invalid system namespace: {namespace}"),
            ));
        }
        let parsed = Arc::new(CollectionOptions::parse(options)?);
        let change = self.shared.change_schema();
        if self.entry(namespace).is_some() {
            return Err(Error::refused(
                code::NAMESPACE_EXISTS,
                format!("Collection {namespace} already exists."),
            ));
        }
        let mut batch = change.batch();
        let id = CollectionId(batch.allocate());
        let mut indexes = Vec::new();
        if parsed.view.is_none() {
            let spec = IndexSpec::id_index(parsed.collation.as_ref())?;
            indexes.push(Arc::new(Index::new(IndexId(batch.allocate()), spec, true, 0)));
        }
        let created = Some(clock::now_micros());
        let entry = CatalogEntry { id, uuid: random_uuid(), created, options: parsed, indexes };
        batch.create(namespace, &entry);
        batch.commit()?;
        let entry = open_entry(&self.shared, namespace.clone(), entry)?;
        self.entries.write().insert(namespace.clone(), entry.clone());
        if let Entry::Collection(_) = entry {
            self.shared.databases.note(DatabaseEventKind::Created, namespace);
        }
        Ok(entry)
    }

    /// Drops a collection or view: gone at once, its keys deleted in the background. Says whether there was one.
    pub fn drop_collection(&self, namespace: &Namespace) -> Result<bool> {
        self.drop_entry(&self.shared.change_schema(), namespace)
    }

    /// Drops every collection of a database; says whether there was any.
    pub fn drop_database(&self, database: &str) -> Result<bool> {
        let change = self.shared.change_schema();
        let mut any = false;
        for (namespace, _) in self.entries_of(database) {
            any |= self.drop_entry(&change, &namespace)?;
        }
        Ok(any)
    }

    fn drop_entry(&self, change: &SchemaChange<'_>, namespace: &Namespace) -> Result<bool> {
        match self.entry(namespace) {
            None => Ok(false),
            Some(Entry::View(view)) => {
                let mut batch = change.batch();
                batch.remove(namespace, &view.uuid)?;
                batch.commit()?;
                self.entries.write().remove(namespace);
                Ok(true)
            }
            Some(Entry::Collection(collection)) => {
                let mut stopped = collection.stop_writes();
                let numbers = collection.numbers()?;
                let mut batch = change.batch();
                batch.remove(namespace, &collection.uuid())?;
                batch.mark_dropped(&numbers);
                batch.commit()?;
                self.entries.write().remove(namespace);
                self.retire(&mut stopped, numbers);
                self.shared.databases.note(DatabaseEventKind::Deleted, namespace);
                Ok(true)
            }
        }
    }

    /// Ends a collection that has left the catalog.
    fn retire(&self, stopped: &mut StoppedWrites<'_>, numbers: Vec<u32>) {
        stopped.publish(Schema { dropped: true, ..stopped.schema().clone() });
        stopped.collection().watchers.wake();
        self.shared.delete_later(numbers);
        self.upkeep.wake();
    }

    /// Renames a collection; `replace` drops the collection that has the new name.
    pub fn rename(&self, from: &Namespace, to: &Namespace, replace: bool) -> Result<()> {
        let change = self.shared.change_schema();
        let collection = match self.entry(from) {
            Some(Entry::Collection(collection)) => collection,
            Some(Entry::View(_)) => {
                return Err(Error::refused(
                    code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                    format!("cannot rename view: {from}"),
                ));
            }
            None => {
                return Err(Error::namespace_not_found(format!("Source collection {from} does not exist")));
            }
        };
        if from == to {
            return Err(Error::refused(20, "Can't rename a collection to itself"));
        }
        match self.entry(to) {
            Some(Entry::View(_)) => Err(Error::refused(
                code::NAMESPACE_EXISTS,
                format!("a view already exists with that name: {to}"),
            )),
            Some(_) if !replace => Err(Error::refused(code::NAMESPACE_EXISTS, "target namespace exists")),
            _ => {
                let replaced = self.collection(to)?;
                let replaced = replaced.as_deref().map(Collection::stop_writes);
                self.move_entry(&change, &collection, to, replaced)
            }
        }
    }

    /// Gives a collection another name, and drops the collection that has it, both at once.
    pub(crate) fn move_entry(
        &self,
        change: &SchemaChange<'_>,
        collection: &Arc<Collection>,
        to: &Namespace,
        mut replaced: Option<StoppedWrites<'_>>,
    ) -> Result<()> {
        let stopped = collection.stop_writes();
        let numbers = replaced.as_ref().map_or(Ok(Vec::new()), |target| target.collection().numbers())?;
        let from = collection.namespace();
        let entry = collection.catalog_entry(stopped.schema());
        let mut batch = change.batch();
        batch.remove(&from, &entry.uuid)?;
        match &replaced {
            Some(target) => batch.replace_other(to, &target.collection().uuid(), &entry)?,
            None => batch.create(to, &entry),
        }
        batch.mark_dropped(&numbers);
        batch.commit()?;
        collection.set_namespace(to.clone());
        let mut entries = self.entries.write();
        entries.remove(&from);
        entries.insert(to.clone(), Entry::Collection(collection.clone()));
        drop(entries);
        let databases = &self.shared.databases;
        databases.note(DatabaseEventKind::Deleted, &from);
        if let Some(target) = &mut replaced {
            self.retire(target, numbers);
            databases.note(DatabaseEventKind::Deleted, to);
        }
        databases.note(DatabaseEventKind::Created, to);
        Ok(())
    }

    /// Changes options of a collection or view, as `collMod` does; `edit` changes more of a collection's schema, together with
    /// the options.
    pub fn modify(
        &self,
        namespace: &Namespace,
        changes: Doc<'_>,
        edit: Option<impl FnOnce(&mut Schema) -> Result<()>>,
    ) -> Result<()> {
        let change = self.shared.change_schema();
        let entry = self
            .entry(namespace)
            .ok_or_else(|| Error::namespace_not_found(format!("ns does not exist: {namespace}")))?;
        let options = Arc::new(entry.options().modified(changes)?);
        match entry {
            Entry::Collection(collection) => collection.change_schema(&change, |_, schema| {
                schema.options = options;
                edit.map_or(Ok(()), |edit| edit(schema))
            }),
            Entry::View(_) if edit.is_some() => Err(Error::refused(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                format!("Namespace {namespace} is a view, not a collection"),
            )),
            Entry::View(view) => {
                let (id, uuid) = (CollectionId(0), view.uuid);
                let entry = CatalogEntry { id, uuid, created: None, options, indexes: Vec::new() };
                let mut batch = change.batch();
                batch.replace(namespace, &entry)?;
                batch.commit()?;
                let entry = open_entry(&self.shared, namespace.clone(), entry)?;
                self.entries.write().insert(namespace.clone(), entry);
                Ok(())
            }
        }
    }

    /// The collections and views of a database, by name.
    pub fn entries_of(&self, database: &str) -> Vec<(Namespace, Entry)> {
        let entries = self.entries.read();
        entries
            .iter()
            .filter(|(namespace, _)| namespace.database == database)
            .map(|(namespace, entry)| (namespace.clone(), entry.clone()))
            .collect()
    }

    /// The names of all databases that hold a collection.
    pub fn databases(&self) -> Vec<String> {
        let entries = self.entries.read();
        let mut names: Vec<String> = entries.keys().map(|namespace| namespace.database.clone()).collect();
        names.dedup();
        names
    }

    /// What a session did under this transaction number before, nothing if the number is new; and the session's turn, to
    /// be kept until the write is committed.
    pub fn begin_retryable(
        &self,
        session: &[u8],
        transaction: i64,
    ) -> Result<(Vec<RememberedStatement>, SessionTurn)> {
        self.retries.begin(self.shared.engine.as_ref(), session, transaction)
    }

    /// How often the TTL monitor runs, in seconds.
    pub fn set_ttl_interval(&self, seconds: u64) {
        self.upkeep.set_ttl_interval(seconds);
    }

    /// Ends the work in the background, notes the collections' sizes and closes the engine.
    pub fn close(&self) -> Result<()> {
        self.upkeep.stop();
        self.upkeep.note_sizes()?;
        self.shared.engine.close()?;
        Ok(())
    }
}

/// The next free number, if the store is of a version that this program reads.
pub(crate) fn read_format(value: &[u8]) -> Result<u32> {
    let damaged = || Error::Damaged("the format record".to_owned());
    let (version, rest) = read_number(value).ok_or_else(damaged)?;
    if version != FORMAT_VERSION as u64 {
        return Err(Error::Damaged(format!(
            "the store has format {version}, this program reads format {FORMAT_VERSION}"
        )));
    }
    let (next, _) = read_number(rest).ok_or_else(damaged)?;
    u32::try_from(next).map_err(|_| damaged())
}

fn load_entry(shared: &Arc<Shared>, key: &[u8], value: &[u8]) -> Result<(Namespace, Entry)> {
    let damaged = || Error::Damaged(keys::describe(Space::Meta, key));
    let name = std::str::from_utf8(&key[1..]).map_err(|_| damaged())?;
    let (database, collection) = name.split_once('\0').ok_or_else(damaged)?;
    let namespace = Namespace { database: database.to_owned(), collection: collection.to_owned() };
    let entry = open_entry(shared, namespace.clone(), CatalogEntry::decode(value)?)?;
    Ok((namespace, entry))
}

fn open_entry(shared: &Arc<Shared>, namespace: Namespace, entry: CatalogEntry) -> Result<Entry> {
    Ok(match &entry.options.view {
        Some(view) => Entry::View(Arc::new(ViewEntry {
            namespace,
            uuid: entry.uuid,
            view: view.clone(),
            options: entry.options.clone(),
        })),
        None => Entry::Collection(Arc::new(Collection::open(shared.clone(), namespace, entry)?)),
    })
}
