//! The catalog of a store: which collections and views there are, and how they come and go.

use crate::blob::Blobs;
use crate::catalog::{CatalogEntry, FORMAT_VERSION, random_uuid};
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::feed::{DatabaseEventKind, DatabaseFeed};
use crate::index::{Index, IndexSpec};
use crate::keys::{self, CollectionId, IndexId, Key, read_number, write_number};
use crate::locks::Stripes;
use crate::namespace::Namespace;
use crate::options::{CollectionOptions, View};
use crate::retry::{RememberedStatement, RetryTable, SessionTurn};
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
    pub documents: Stripes,
    /// Locks over keys of unique indexes.
    pub unique_keys: Stripes,
    /// Blobs in use beside those that documents refer to.
    pub blobs: Blobs,
    /// Which collections came, changed and went.
    pub databases: DatabaseFeed,
    /// Held by whoever writes the catalog; the next free number of collections and indexes.
    catalog: Mutex<u32>,
    /// Numbers of dropped collections and indexes whose keys are still there.
    dropped: Mutex<Vec<u32>>,
    /// Numbers of indexes that are being filled: should one be dropped, its keys are deleted afterwards.
    filling: Mutex<Vec<u32>>,
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
                batch.require_absent(Space::Meta, Key::Format.bytes());
                batch.put(Space::Meta, Key::Format.bytes(), format_value(1));
                engine.commit(batch)?;
                1
            }
            Some(value) => read_format(&value)?,
        };
        let shared = Arc::new(Shared {
            engine,
            documents: Stripes::new(),
            unique_keys: Stripes::new(),
            blobs: Blobs::default(),
            databases: DatabaseFeed::new(),
            catalog: Mutex::new(next),
            dropped: Mutex::new(Vec::new()),
            filling: Mutex::new(Vec::new()),
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
            match self.create(namespace, Doc::EMPTY) {
                // Somebody else created it meanwhile.
                Err(Error::Query(error)) if error.code == code::NAMESPACE_EXISTS => {}
                Err(error) => return Err(error),
                Ok(()) => {}
            }
        }
    }

    /// Creates a collection or a view.
    pub fn create(&self, namespace: &Namespace, options: Doc<'_>) -> Result<()> {
        if let Some(name) = namespace.collection.strip_prefix("system.")
            && !SYSTEM_COLLECTIONS.contains(&name)
        {
            return Err(Error::refused(
                code::INVALID_NAMESPACE,
                format!("Invalid system namespace: {namespace}"),
            ));
        }
        let parsed = Arc::new(CollectionOptions::parse(options)?);
        let mut next = self.shared.catalog.lock();
        if self.entry(namespace).is_some() {
            return Err(Error::refused(
                code::NAMESPACE_EXISTS,
                format!("Collection {namespace} already exists."),
            ));
        }
        let id = CollectionId(*next);
        *next += 1;
        let mut indexes = Vec::new();
        if parsed.view.is_none() {
            let spec = IndexSpec::id_index(parsed.collation.as_ref())?;
            indexes.push(Arc::new(Index::new(IndexId(*next), spec, true, 0)));
            *next += 1;
        }
        let entry = CatalogEntry { id, uuid: random_uuid(), options: parsed, indexes };
        let key = Key::Catalog { database: &namespace.database, collection: &namespace.collection }.bytes();
        let mut batch = Batch::new();
        batch.require_absent(Space::Meta, key.clone());
        batch.put(Space::Meta, key, entry.encode().into_bytes());
        batch.put(Space::Meta, Key::Format.bytes(), format_value(*next));
        self.shared.engine.commit(batch)?;
        let entry = open_entry(&self.shared, namespace.clone(), entry)?;
        let is_view = matches!(entry, Entry::View(_));
        self.entries.write().insert(namespace.clone(), entry);
        if !is_view {
            self.shared.databases.note(DatabaseEventKind::Created, namespace);
        }
        Ok(())
    }

    /// Drops a collection or view: gone at once, its keys deleted in the background. Says whether there was one.
    pub fn drop_collection(&self, namespace: &Namespace) -> Result<bool> {
        let Some(entry) = self.entry(namespace) else { return Ok(false) };
        let mut numbers = Vec::new();
        if let Entry::Collection(collection) = &entry {
            numbers = collection.retire();
            numbers.extend(collection.view_numbers()?);
        }
        let _catalog = self.shared.catalog.lock();
        let mut batch = Batch::new();
        // Renamed meanwhile, or dropped by somebody else: then its present name counts.
        let name = match &entry {
            Entry::Collection(collection) => collection.namespace(),
            Entry::View(view) => view.namespace.clone(),
        };
        batch.delete(Space::Meta, catalog_key(&name));
        for number in &numbers {
            batch.put(Space::Meta, Key::Dropped(*number).bytes(), Vec::new());
        }
        self.shared.engine.commit(batch)?;
        let removed = self.entries.write().remove(&name).is_some();
        if removed && matches!(entry, Entry::Collection(_)) {
            self.shared.databases.note(DatabaseEventKind::Deleted, &name);
        }
        self.shared.dropped.lock().extend(numbers);
        self.upkeep.wake();
        Ok(removed)
    }

    /// Drops every collection of a database; says whether there was any.
    pub fn drop_database(&self, database: &str) -> Result<bool> {
        let mut any = false;
        for (namespace, _) in self.entries_of(database) {
            any |= self.drop_collection(&namespace)?;
        }
        Ok(any)
    }

    /// Renames a collection; `replace` drops what has the new name.
    pub fn rename(&self, from: &Namespace, to: &Namespace, replace: bool) -> Result<()> {
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
        let mut numbers = Vec::new();
        match self.entry(to) {
            Some(_) if !replace => {
                return Err(Error::refused(code::NAMESPACE_EXISTS, "target namespace exists"));
            }
            Some(Entry::Collection(target)) => {
                numbers = target.retire();
                numbers.extend(target.view_numbers()?);
            }
            _ => {}
        }
        let _catalog = self.shared.catalog.lock();
        let mut batch = Batch::new();
        batch.delete(Space::Meta, catalog_key(from));
        for number in &numbers {
            batch.put(Space::Meta, Key::Dropped(*number).bytes(), Vec::new());
        }
        batch.put(
            Space::Meta,
            catalog_key(to),
            collection.catalog_entry(&collection.schema_under_catalog()).encode().into_bytes(),
        );
        self.shared.engine.commit(batch)?;
        collection.set_namespace(to.clone());
        let mut entries = self.entries.write();
        entries.remove(from);
        let replaced = entries.insert(to.clone(), Entry::Collection(collection));
        drop(entries);
        let databases = &self.shared.databases;
        databases.note(DatabaseEventKind::Deleted, from);
        if matches!(replaced, Some(Entry::Collection(_))) {
            databases.note(DatabaseEventKind::Deleted, to);
        }
        databases.note(DatabaseEventKind::Created, to);
        self.shared.dropped.lock().extend(numbers);
        self.upkeep.wake();
        Ok(())
    }

    /// Replaces the options of a collection or view, as `collMod` does.
    pub fn modify(&self, namespace: &Namespace, changes: Doc<'_>) -> Result<()> {
        let entry = self
            .entry(namespace)
            .ok_or_else(|| Error::namespace_not_found(format!("ns does not exist: {namespace}")))?;
        let options = Arc::new(entry.options().modified(changes)?);
        match entry {
            Entry::Collection(collection) => {
                collection.set_schema(|schema| schema.options = options);
                self.shared.save_collection(&collection, Numbers::default())
            }
            Entry::View(view) => {
                let _catalog = self.shared.catalog.lock();
                let catalog_entry =
                    CatalogEntry { id: CollectionId(0), uuid: view.uuid, options, indexes: Vec::new() };
                let mut batch = Batch::new();
                batch.put(Space::Meta, catalog_key(namespace), catalog_entry.encode().into_bytes());
                self.shared.engine.commit(batch)?;
                let entry = open_entry(&self.shared, namespace.clone(), catalog_entry)?;
                self.entries.write().insert(namespace.clone(), entry);
                Ok(())
            }
        }
    }

    /// Changes options of one index, as `collMod` does.
    pub fn modify_index(&self, collection: &Collection, name: &str, spec: IndexSpec) -> Result<()> {
        collection.set_schema(|schema| {
            for index in &mut schema.indexes {
                if index.spec.name == name {
                    *index = Arc::new(Index::new(index.id, spec.clone(), index.is_ready(), index.multikey()));
                }
            }
        });
        self.shared.save_collection(collection, Numbers::default())
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

/// Numbers of indexes whose state changes together with the catalog.
#[derive(Clone, Copy, Default)]
pub(crate) struct Numbers<'a> {
    /// Complete from now on.
    pub kept: &'a [u32],
    /// Dead from now on.
    pub dropped: &'a [u32],
}

impl Shared {
    /// A number for an index, that none had before. It counts as dropped until [`Shared::save_collection`] keeps it,
    /// so that a kill in between leaves nothing behind.
    pub fn next_number(&self) -> Result<u32> {
        let mut next = self.catalog.lock();
        let number = *next;
        let mut batch = Batch::new();
        batch.put(Space::Meta, Key::Format.bytes(), format_value(number + 1));
        batch.put(Space::Meta, Key::Dropped(number).bytes(), Vec::new());
        self.engine.commit(batch)?;
        *next = number + 1;
        Ok(number)
    }

    /// Stores a collection's catalog document, as its schema is now, under its present name.
    pub fn save_collection(&self, collection: &Collection, numbers: Numbers<'_>) -> Result<()> {
        let _catalog = self.catalog.lock();
        let schema = collection.schema_under_catalog();
        if schema.dropped {
            return Ok(());
        }
        let mut batch = Batch::new();
        let entry = collection.catalog_entry(&schema);
        batch.put(Space::Meta, catalog_key(&collection.namespace()), entry.encode().into_bytes());
        // What was dropped meanwhile stays so.
        for index in schema.indexes.iter().filter(|index| numbers.kept.contains(&index.id.0)) {
            batch.delete(Space::Meta, Key::Dropped(index.id.0).bytes());
        }
        for number in numbers.dropped {
            batch.put(Space::Meta, Key::Dropped(*number).bytes(), Vec::new());
        }
        self.engine.commit(batch)?;
        Ok(())
    }

    /// Notes that an index meets arrays, before the first entry that depends on it is written.
    pub fn save_multikey(&self, collection: &Collection, index: &Index, bits: u64) -> Result<()> {
        index.add_multikey(bits);
        self.save_collection(collection, Numbers::default())?;
        index.note_multikey(bits);
        Ok(())
    }

    /// Notes that these indexes are dead, whatever the catalog says, from the next start on at the latest.
    pub fn note_dropped(&self, numbers: &[u32]) -> Result<()> {
        let mut batch = Batch::with_capacity(numbers.len());
        for number in numbers {
            batch.put(Space::Meta, Key::Dropped(*number).bytes(), Vec::new());
        }
        self.engine.commit(batch)?;
        Ok(())
    }

    /// Has the keys under these numbers deleted in the background; that they are dropped is noted already.
    pub fn delete_later(&self, numbers: Vec<u32>) {
        self.dropped.lock().extend(numbers);
    }

    /// One number whose keys are to be deleted.
    pub fn take_dropped(&self) -> Option<u32> {
        let mut dropped = self.dropped.lock();
        let filling = self.filling.lock();
        let at = dropped.iter().rposition(|number| !filling.contains(number))?;
        Some(dropped.swap_remove(at))
    }

    /// Puts off the deletion of what lies under these numbers until what is returned is dropped.
    pub fn fill(&self, numbers: &[u32]) -> Filling<'_> {
        self.filling.lock().extend(numbers);
        Filling { shared: self, numbers: numbers.to_vec() }
    }
}

/// Indexes that are being filled.
pub(crate) struct Filling<'a> {
    shared: &'a Shared,
    numbers: Vec<u32>,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.shared.filling.lock().retain(|number| !self.numbers.contains(number));
    }
}

fn catalog_key(namespace: &Namespace) -> Vec<u8> {
    Key::Catalog { database: &namespace.database, collection: &namespace.collection }.bytes()
}

fn format_value(next: u32) -> Vec<u8> {
    let mut out = Vec::new();
    write_number(&mut out, FORMAT_VERSION as u64);
    write_number(&mut out, next.into());
    out
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
