//! The catalog of a store in memory: its collections and views, and how they are created, renamed, changed and dropped.

use crate::blob::Blobs;
use crate::catalog::{CatalogEntry, FORMAT_VERSION, random_uuid};
use crate::clock;
use crate::collection::{Collection, Recovered, Recovery, Schema, StoppedWrites};
use crate::error::{Error, Result};
use crate::events::{ClusterClock, Draft, EventKind, EventLog, Retention, is_oplog};
use crate::exec::on_all_cores;
use crate::feed::{DatabaseEventKind, DatabaseFeed};
use crate::follow::{ByNumber, Following};
use crate::incoming;
use crate::index::{Index, IndexSpec};
use crate::keys::{self, CollectionId, IndexId, Key, read_number};
use crate::locks::LockTable;
use crate::namespace::Namespace;
use crate::numbers::{Numbers, marks};
use crate::ops::is_temporary;
use crate::options::{CollectionOptions, View};
use crate::replica::Replica;
use crate::replica::news::Described;
use crate::retry::{RememberedStatement, RetryTable, SessionTurn};
use crate::schema_change::{SchemaChange, format_value};
use crate::slow::SlowOperations;
use crate::transaction::{ClaimWaiters, Inside};
use crate::upkeep::Upkeep;
use diwan_kv::{Batch, Bytes, Direction, Engine, KeyRange, Space};
use diwan_query::{Gate, Interrupt, code};
use diwan_value::{Doc, DocBuf};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// How many bytes the writes of large documents hold at once.
pub(crate) const LARGE_WRITES: usize = 96 << 20;

/// The state that all collections of a store share.
pub(crate) struct Shared {
    pub engine: Arc<dyn Engine>,
    /// Locks over `_id`s.
    pub documents: LockTable,
    /// Locks over keys of unique indexes.
    pub unique_keys: LockTable,
    /// Admits writes of large documents. A writer enters between the locks of documents and those of unique keys.
    pub large_writes: Gate,
    /// The blobs that uploads and readers hold.
    pub blobs: Blobs,
    /// The log of created, updated and deleted collections, for `_db_updates`.
    pub databases: DatabaseFeed,
    /// The events of change streams, and the clock of commits.
    pub events: EventLog,
    /// How long events are kept.
    pub retention: RwLock<Retention>,
    /// Held during a [change of the schema](crate::schema_change).
    pub schema_changes: Mutex<()>,
    /// The numbers of collections and indexes. Holds the catalog's lock.
    pub numbers: Numbers,
    /// The writers that wait for transactions.
    pub waiters: ClaimWaiters,
    /// How many bytes the open transactions have written.
    pub transaction_bytes: AtomicU64,
    /// The sessions of retryable writes.
    pub retries: Arc<RetryTable>,
    /// The place of the store in its replica set.
    pub replica: Arc<Replica>,
    /// The transaction whose private store this is.
    pub inside: Option<Arc<Inside>>,
}

/// A view: it reads a collection through a pipeline.
#[derive(Debug)]
pub struct ViewEntry {
    /// Its name.
    pub namespace: Namespace,
    /// The identifier that clients see.
    pub uuid: [u8; 16],
    /// The collection that it reads and its pipeline.
    pub view: View,
    /// The options it was created with.
    pub options: Arc<CollectionOptions>,
}

/// A collection or a view.
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

/// The server's state that aggregation stages show. The server implements it, since the store does not know of it.
pub trait ServerState: Send + Sync {
    /// The running operations, for `$currentOp` with these options.
    fn operations(&self, spec: Doc<'_>) -> Vec<DocBuf>;

    /// The sessions, for `$listSessions`.
    fn sessions(&self) -> Vec<DocBuf>;

    /// The server's name and port.
    fn host(&self) -> String;

    /// The latencies of operations on a collection, for `latencyStats` of `$collStats`.
    fn latency_stats(&self, namespace: &Namespace, histograms: bool) -> DocBuf;

    /// The number of collection scans, for `queryExecStats` of `$collStats`.
    fn query_stats(&self, namespace: &Namespace) -> DocBuf;
}

/// A store: all databases of one engine.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    entries: Arc<RwLock<BTreeMap<Namespace, Entry>>>,
    pub(crate) by_number: ByNumber,
    /// A transaction's private store has none.
    upkeep: Option<Upkeep>,
    server: OnceLock<Box<dyn ServerState>>,
    slow: SlowOperations,
}

/// What changes a copy of a schema.
type SchemaEdit<'a> = dyn FnMut(&mut Schema) -> Result<()> + 'a;

/// The names after `system.` that clients may create.
const SYSTEM_COLLECTIONS: [&str; 4] = ["js", "profile", "roles", "settings"];

impl Store {
    /// Opens the store that the engine holds, or initializes an empty one.
    pub fn open(engine: Arc<dyn Engine>) -> Result<Arc<Store>> {
        incoming::refuse(engine.get(Space::Meta, &Key::Incoming.bytes())?)?;
        let next = match engine.get(Space::Meta, &Key::Format.bytes())? {
            None => {
                let mut batch = Batch::new();
                batch.take_reserve();
                batch.require_absent(Space::Meta, Key::Format.bytes());
                batch.require_absent(Space::Meta, Key::Incoming.bytes());
                batch.put(Space::Meta, Key::Format.bytes(), format_value(1));
                batch.put(Space::Meta, Key::DueBodiesComplete.bytes(), Vec::new());
                match engine.commit(batch) {
                    // Another process has initialized it meanwhile.
                    Err(diwan_kv::Error::Conflict(_)) if engine.peers().is_some() => {
                        return Store::open(engine);
                    }
                    outcome => outcome?,
                };
                1
            }
            Some(value) => read_format(&value)?,
        };
        if engine.peers().is_some() {
            // Where other processes write, the notes of one tell nothing.
            let mut batch = Batch::new();
            batch.take_reserve();
            batch.delete(Space::Meta, Key::Closed.bytes());
            if engine.get(Space::Meta, &Key::Closed.bytes())?.is_some() {
                engine.commit(batch)?;
            }
        }
        let following = Following::begin(engine.as_ref());
        let events = EventLog::open(engine.as_ref())?;
        let shared = Arc::new(Shared {
            engine,
            documents: LockTable::new(),
            unique_keys: LockTable::new(),
            large_writes: Gate::new(LARGE_WRITES),
            blobs: Blobs::default(),
            databases: DatabaseFeed::new(),
            events,
            retention: RwLock::default(),
            schema_changes: Mutex::new(()),
            numbers: Numbers::new(next),
            waiters: ClaimWaiters::new(),
            transaction_bytes: AtomicU64::new(0),
            retries: Arc::default(),
            replica: Replica::new(),
            inside: None,
        });
        let snapshot = shared.engine.snapshot();
        let recovery = Recovery::read(snapshot.as_ref())?;
        if recovery.closed {
            // Before anything is written that the notes do not know of.
            let mut batch = Batch::new();
            batch.take_reserve();
            batch.delete(Space::Meta, Key::Closed.bytes());
            shared.engine.commit(batch)?;
        }
        let catalog = KeyRange::prefix(keys::catalog_prefix());
        let catalog: Vec<(Bytes, Bytes)> =
            snapshot.scan(Space::Meta, catalog, Direction::Forward).collect::<diwan_kv::Result<_>>()?;
        let entries = load_entries(&shared, &catalog, &recovery)?;
        let dropped: Vec<u32> = marks(snapshot.as_ref())?.into_iter().map(|mark| mark.number).collect();
        drop(snapshot);
        // An index whose build was interrupted was never acknowledged. One that was marked as dropped is unusable
        // already.
        // Another process may be building it, and what it has dropped it deletes itself.
        if !shared.has_peers() {
            for entry in entries.values() {
                if let Entry::Collection(collection) = entry {
                    collection.remove_indexes(|index| !index.is_ready() || dropped.contains(&index.id.0))?;
                }
            }
            shared.delete_later(dropped);
        }
        for (namespace, _) in entries.iter().filter(|(_, entry)| matches!(entry, Entry::Collection(_))) {
            shared.databases.note(DatabaseEventKind::Created, namespace);
        }
        let entries = Arc::new(RwLock::new(entries));
        let upkeep = Upkeep::start(shared.clone(), entries.clone());
        let store = Arc::new(Store {
            shared,
            entries,
            by_number: ByNumber::default(),
            upkeep: Some(upkeep),
            server: OnceLock::new(),
            slow: SlowOperations::default(),
        });
        if !store.shared.has_peers() {
            store.drop_unfinished()?;
        }
        store.load_identity()?;
        following.start(&store)?;
        Ok(store)
    }

    /// Drops the temporary collections that an interrupted `$out` or `convertToCapped` left.
    fn drop_unfinished(&self) -> Result<()> {
        let names: Vec<Namespace> = self.entries.read().keys().cloned().collect();
        for name in names.iter().filter(|name| is_temporary(name)) {
            self.drop_collection(name)?;
        }
        Ok(())
    }

    /// Sets the source of [`ServerState`]. Only the first call has an effect.
    pub fn set_server_state(&self, server: Box<dyn ServerState>) {
        let _ = self.server.set(server);
    }

    /// The private store of a transaction.
    pub(crate) fn inside(shared: Arc<Shared>) -> Arc<Store> {
        Arc::new(Store {
            shared,
            entries: Arc::default(),
            by_number: ByNumber::default(),
            upkeep: None,
            server: OnceLock::new(),
            slow: SlowOperations::default(),
        })
    }

    /// The store outside, of the private store of a transaction; any other store itself.
    fn outside(&self) -> &Store {
        self.shared.inside.as_ref().map_or(self, |inside| &inside.outside)
    }

    pub(crate) fn server_state(&self) -> Option<&dyn ServerState> {
        self.outside().server.get().map(AsRef::as_ref)
    }

    /// The slow operations of both faces.
    pub fn slow(&self) -> &SlowOperations {
        &self.outside().slow
    }

    /// The clock that gives each commit its time.
    pub fn clock(&self) -> &ClusterClock {
        &self.shared.events.clock
    }

    /// The engine that holds the store.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.shared.engine
    }

    /// The collection or view of that name.
    pub fn entry(&self, namespace: &Namespace) -> Option<Entry> {
        let found = self.entries.read().get(namespace).cloned();
        match &self.shared.inside {
            Some(inside) if found.is_none() => inside.open_entry(&self.shared, &self.entries, namespace),
            _ => found,
        }
    }

    /// An error if this is the private store of a transaction, and a collection in it was taken for a missing one because it
    /// could not be read. What was done in it since then is not to be trusted.
    pub fn check_readable(&self) -> Result<()> {
        self.shared.inside.as_ref().map_or(Ok(()), |inside| inside.check_readable())
    }

    /// Adds an entry that has been committed.
    pub(crate) fn add_entry(&self, namespace: Namespace, entry: Entry) {
        let kind = match entry {
            Entry::Collection(_) => DatabaseEventKind::Created,
            Entry::View(_) => DatabaseEventKind::Altered,
        };
        self.entries.write().insert(namespace.clone(), entry);
        self.shared.databases.note(kind, &namespace);
    }

    /// The collection of that name; `None` if the name is free. Refuses a view.
    pub fn collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        match self.entry(namespace) {
            None => self.check_readable().map(|()| None),
            Some(Entry::Collection(collection)) => Ok(Some(collection)),
            Some(Entry::View(_)) => Err(Error::refused(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                format!("Namespace {namespace} is a view, not a collection"),
            )),
        }
    }

    /// The collection of that name. Creates it without options if the name is free.
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

    /// Creates a collection. It may have been dropped again before this returns.
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
        if is_oplog(namespace) {
            return Err(Error::refused(code::INVALID_NAMESPACE, format!("cannot write to {namespace}")));
        }
        self.create_as(namespace, options, random_uuid(), clock::now_micros())
    }

    /// Creates a copy of a collection of the primary, without its indexes and documents.
    pub(crate) fn create_copy(
        &self,
        namespace: &Namespace,
        described: &Described,
    ) -> Result<Arc<Collection>> {
        let created = described.created.unwrap_or_else(clock::now_micros);
        let options = described.options.as_doc();
        match self.create_as(namespace, options, described.uuid, created)? {
            Entry::Collection(collection) => {
                collection.set_own_mark()?;
                Ok(collection)
            }
            Entry::View(_) => Err(Error::Damaged(format!("the options of {namespace}"))),
        }
    }

    fn create_as(
        &self,
        namespace: &Namespace,
        options: Doc<'_>,
        uuid: [u8; 16],
        created: i64,
    ) -> Result<Entry> {
        let parsed = Arc::new(CollectionOptions::parse(options)?);
        self.shared.evaluate(|| self.try_create(namespace, &parsed, uuid, created))
    }

    fn try_create(
        &self,
        namespace: &Namespace,
        options: &Arc<CollectionOptions>,
        uuid: [u8; 16],
        created: i64,
    ) -> Result<Entry> {
        let parsed = options.clone();
        let change = self.shared.change_schema();
        if self.entry(namespace).is_some() {
            return Err(Error::refused(
                code::NAMESPACE_EXISTS,
                format!("Collection {namespace} already exists."),
            ));
        }
        let mut batch = change.batch();
        let id = CollectionId(batch.allocate()?);
        let mut indexes = Vec::new();
        if parsed.view.is_none() {
            let spec = IndexSpec::id_index(parsed.collation.as_ref())?;
            indexes.push(Arc::new(Index::new(IndexId(batch.allocate()?), spec, true, 0)));
        }
        let created = Some(created);
        let entry = CatalogEntry { id, uuid, created, options: parsed, indexes, history: false };
        batch.create(namespace, &entry);
        if entry.options.view.is_none() {
            batch.tell(namespace, || Draft::of_creation(namespace, &entry));
        }
        batch.commit()?;
        let entry = open_entry(&self.shared, namespace.clone(), entry, Recovered::empty())?;
        self.add_entry(namespace.clone(), entry.clone());
        Ok(entry)
    }

    /// Drops a collection or view. It is gone at once; its keys are deleted in the background. Returns whether it
    /// existed.
    pub fn drop_collection(&self, namespace: &Namespace) -> Result<bool> {
        self.shared.evaluate(|| self.drop_entry(&self.shared.change_schema(), namespace))
    }

    /// Drops every collection and view of a database. Returns whether there was any.
    pub fn drop_database(&self, database: &str) -> Result<bool> {
        let mut any = false;
        self.shared.evaluate_several(|| self.try_drop_database(database, &mut any))?;
        Ok(any)
    }

    /// Sets `any` when it has dropped one.
    fn try_drop_database(&self, database: &str, any: &mut bool) -> Result<()> {
        let change = self.shared.change_schema();
        for (namespace, _) in self.entries_of(database) {
            *any |= self.drop_entry(&change, &namespace)?;
        }
        let whole = Namespace { database: database.to_owned(), collection: String::new() };
        if *any && self.shared.events.records(&whole) {
            let event = Draft::of_collection(EventKind::DropDatabase, &whole, None, Doc::EMPTY);
            self.shared.events.commit(self.shared.engine.as_ref(), Batch::new(), vec![event])?;
        }
        Ok(())
    }

    fn drop_entry(&self, change: &SchemaChange<'_>, namespace: &Namespace) -> Result<bool> {
        match self.entry(namespace) {
            None => Ok(false),
            Some(Entry::View(view)) => {
                let mut batch = change.batch();
                batch.remove(namespace, &view.uuid)?;
                batch.commit()?;
                self.entries.write().remove(namespace);
                self.shared.databases.note(DatabaseEventKind::Altered, namespace);
                Ok(true)
            }
            Some(Entry::Collection(collection)) => {
                self.shared.drop_collection(&self.entries, change, &collection)?;
                self.wake_upkeep();
                Ok(true)
            }
        }
    }

    fn wake_upkeep(&self) {
        if let Some(upkeep) = &self.upkeep {
            upkeep.wake();
        }
    }

    /// Renames a collection; `replace` drops the collection that has the new name.
    pub fn rename(&self, from: &Namespace, to: &Namespace, replace: bool) -> Result<()> {
        self.shared.evaluate(|| self.try_rename(from, to, replace))
    }

    fn try_rename(&self, from: &Namespace, to: &Namespace, replace: bool) -> Result<()> {
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
        if is_oplog(to) {
            return Err(Error::refused(code::INVALID_NAMESPACE, format!("cannot write to {to}")));
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

    /// Renames a collection and drops the collection that had the new name, in one batch.
    pub(crate) fn move_entry(
        &self,
        change: &SchemaChange<'_>,
        collection: &Arc<Collection>,
        to: &Namespace,
        mut replaced: Option<StoppedWrites<'_>>,
    ) -> Result<()> {
        let mut stopped = collection.stop_writes();
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
        let dropped = replaced.as_ref().map(|target| target.collection().uuid());
        let rename = || Draft::of_rename(&from, to, &entry.uuid, dropped.as_ref());
        match self.shared.events.records(&from) {
            true => batch.tell(&from, rename),
            false => batch.tell(to, rename),
        }
        batch.commit()?;
        collection.set_namespace(to.clone());
        let recorded = self.shared.events.records(to);
        if stopped.schema().recorded != recorded {
            stopped.publish(Schema { recorded, ..stopped.schema().clone() });
        }
        let mut entries = self.entries.write();
        entries.remove(&from);
        entries.insert(to.clone(), Entry::Collection(collection.clone()));
        drop(entries);
        let databases = &self.shared.databases;
        databases.note(DatabaseEventKind::Deleted, &from);
        if let Some(target) = &mut replaced {
            self.shared.retire(target, numbers);
            self.wake_upkeep();
            databases.note(DatabaseEventKind::Deleted, to);
        }
        databases.note(DatabaseEventKind::Created, to);
        Ok(())
    }

    /// Changes options of a collection or view, as `collMod` does. `edit` changes more of a collection's schema in the
    /// same schema change.
    pub fn modify(
        &self,
        namespace: &Namespace,
        changes: Doc<'_>,
        mut edit: Option<impl FnMut(&mut Schema) -> Result<()>>,
    ) -> Result<()> {
        self.shared.evaluate(|| {
            let edit = edit.as_mut().map(|edit| edit as &mut SchemaEdit<'_>);
            self.try_modify(namespace, changes, edit)
        })
    }

    fn try_modify(
        &self,
        namespace: &Namespace,
        changes: Doc<'_>,
        edit: Option<&mut SchemaEdit<'_>>,
    ) -> Result<()> {
        let change = self.shared.change_schema();
        let entry = self
            .entry(namespace)
            .ok_or_else(|| Error::namespace_not_found(format!("ns does not exist: {namespace}")))?;
        let options = Arc::new(entry.options().modified(changes)?);
        match entry {
            Entry::Collection(collection) => collection.change_schema(&change, |batch, schema| {
                let before = schema.clone();
                schema.options = options;
                edit.map_or(Ok(()), |edit| edit(schema))?;
                let uuid = collection.uuid();
                batch
                    .tell(namespace, || Draft::of_modification(namespace, &uuid, changes, (&before, schema)));
                Ok(())
            }),
            Entry::View(_) if edit.is_some() => Err(Error::refused(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                format!("Namespace {namespace} is a view, not a collection"),
            )),
            Entry::View(view) => {
                let (id, uuid, indexes) = (CollectionId(0), view.uuid, Vec::new());
                let entry = CatalogEntry { id, uuid, created: None, options, indexes, history: true };
                let mut batch = change.batch();
                batch.replace(namespace, &entry)?;
                batch.commit()?;
                let entry = open_entry(&self.shared, namespace.clone(), entry, Recovered::empty())?;
                self.entries.write().insert(namespace.clone(), entry);
                self.shared.databases.note(DatabaseEventKind::Altered, namespace);
                Ok(())
            }
        }
    }

    /// All collections and views by their names.
    pub(crate) fn entries(&self) -> &RwLock<BTreeMap<Namespace, Entry>> {
        &self.entries
    }

    /// The collections and views of a database, ordered by name.
    pub fn entries_of(&self, database: &str) -> Vec<(Namespace, Entry)> {
        let mut found = Vec::new();
        self.each_entry(Some(database), &mut |namespace, entry| {
            found.push((namespace.clone(), entry.clone()));
        });
        found
    }

    /// Shows the collections and views of a database, or of all, by name. None is created or dropped meanwhile.
    pub(crate) fn each_entry(&self, database: Option<&str>, show: &mut dyn FnMut(&Namespace, &Entry)) {
        let entries = self.entries.read();
        let first =
            Namespace { database: database.unwrap_or_default().to_owned(), collection: String::new() };
        entries
            .range(first..)
            .take_while(|(namespace, _)| database.is_none_or(|database| namespace.database == database))
            .for_each(|(namespace, entry)| show(namespace, entry));
    }

    /// The names of the collections that are chosen, in their order.
    pub fn collection_names(&self, chosen: impl Fn(&Namespace) -> bool) -> Vec<Namespace> {
        let entries = self.entries.read();
        entries
            .iter()
            .filter(|(namespace, entry)| matches!(entry, Entry::Collection(_)) && chosen(namespace))
            .map(|(namespace, _)| namespace.clone())
            .collect()
    }

    /// The names of all databases that hold a collection or view.
    pub fn databases(&self) -> Vec<String> {
        let entries = self.entries.read();
        let mut names: Vec<&str> = entries.keys().map(|namespace| namespace.database.as_str()).collect();
        names.dedup();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Begins a retryable write. Returns the statements that the session executed before under this transaction number,
    /// and the session's turn. The caller keeps the turn until its write is committed. `interrupt` ends the wait for it.
    pub fn begin_retryable(
        &self,
        session: &[u8],
        transaction: i64,
        interrupt: &Interrupt,
    ) -> Result<(Vec<RememberedStatement>, SessionTurn)> {
        self.shared.retries.begin(self.shared.engine.as_ref(), session, transaction, interrupt)
    }

    /// Whether another process may have executed statements of a retryable write while this one did, and has. Then a command that
    /// had no effect, or failed, runs again: it finds their results.
    pub fn is_done_elsewhere(&self, session: &[u8], transaction: i64, interrupt: &Interrupt) -> Result<bool> {
        if !self.shared.has_peers() {
            return Ok(false);
        }
        self.catch_up()?;
        if !self.shared.retries.is_written_elsewhere(session) {
            return Ok(false);
        }
        Ok(!self.begin_retryable(session, transaction, interrupt)?.0.is_empty())
    }

    /// Sets how often the TTL monitor runs, in seconds.
    pub fn set_ttl_interval(&self, seconds: u64) {
        if let Some(upkeep) = &self.upkeep {
            upkeep.set_ttl_interval(seconds);
        }
    }

    /// Stops the background tasks, stores the collections' sizes and closes the engine. Writes wait, and fail.
    pub fn close(&self) -> Result<()> {
        if let Some(upkeep) = &self.upkeep {
            upkeep.stop();
        }
        if self.shared.has_peers() {
            return Ok(self.shared.engine.close()?);
        }
        // The notes are exact only if nothing is written after them.
        let _change = self.shared.change_schema();
        let entries: Vec<Entry> = self.entries.read().values().cloned().collect();
        let collections = entries.iter().filter_map(|entry| match entry {
            Entry::Collection(collection) => Some(collection),
            Entry::View(_) => None,
        });
        let stopped: Vec<StoppedWrites<'_>> =
            collections.map(|collection| collection.stop_writes()).collect();
        let noted = self.note_sizes(&stopped);
        self.shared.engine.close()?;
        match noted {
            // It was closed before.
            Err(Error::Engine(diwan_kv::Error::Closed)) => Ok(()),
            outcome => outcome,
        }
    }

    /// Stores the state of each collection, and the mark that these notes are exact: the next start need not read the logs.
    fn note_sizes(&self, stopped: &[StoppedWrites<'_>]) -> Result<()> {
        let mut batch = Batch::new();
        batch.take_reserve();
        for collection in stopped.iter().map(StoppedWrites::collection) {
            if let Some(note) = collection.sequence.news() {
                batch.put(Space::Meta, Key::Size(collection.id).bytes(), note.encode());
            }
        }
        batch.put(Space::Meta, Key::Closed.bytes(), Vec::new());
        self.shared.engine.commit(batch)?;
        Ok(())
    }
}

/// Reads the next free number from the format record. Fails if this program does not read the store's version.
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

/// Opens all that the catalog holds, on all cores: where there are many collections, most of a start is this.
fn load_entries(
    shared: &Arc<Shared>,
    catalog: &[(Bytes, Bytes)],
    recovery: &Recovery,
) -> Result<BTreeMap<Namespace, Entry>> {
    const PART: usize = 1000;
    let entries = Mutex::new(Vec::with_capacity(catalog.len()));
    on_all_cores(catalog.chunks(PART), |part| {
        let opened = part.iter().map(|(key, value)| load_entry(shared, key, value, recovery));
        let opened = opened.collect::<Result<Vec<_>>>()?;
        entries.lock().extend(opened);
        Ok(())
    })?;
    Ok(entries.into_inner().into_iter().collect())
}

fn load_entry(
    shared: &Arc<Shared>,
    key: &[u8],
    value: &[u8],
    recovery: &Recovery,
) -> Result<(Namespace, Entry)> {
    let damaged = || Error::Damaged(keys::describe(Space::Meta, key));
    let namespace = keys::catalog_name(key).ok_or_else(damaged)?;
    let entry = CatalogEntry::decode(value)?;
    let recovered = recovery.of(entry.id);
    let entry = open_entry(shared, namespace.clone(), entry, recovered)?;
    Ok((namespace, entry))
}

pub(crate) fn open_entry(
    shared: &Arc<Shared>,
    namespace: Namespace,
    entry: CatalogEntry,
    recovered: Recovered,
) -> Result<Entry> {
    Ok(match &entry.options.view {
        Some(view) => Entry::View(Arc::new(ViewEntry {
            namespace,
            uuid: entry.uuid,
            view: view.clone(),
            options: entry.options.clone(),
        })),
        None => Entry::Collection(Arc::new(Collection::open(shared.clone(), namespace, entry, recovered)?)),
    })
}
