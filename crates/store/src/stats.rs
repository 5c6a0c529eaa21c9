//! Sizes and counts of collections and indexes, as the statistics commands show them.

use crate::collection::Collection;
use crate::index::Index;
use crate::store::{Entry, ServerState, Store};
use diwan_kv::{Engine, Space, Stats};
use diwan_query::pipeline::storage_scale;
use diwan_value::{Doc, DocBuf, DocBuilder, Value, doc};

/// The size of a collection. Its storage is estimated as its share of the space's storage, by its number of keys. The
/// space's storage includes data that is still in memory and in the journal.
#[derive(Clone, Debug, Default)]
pub struct CollectionStats {
    /// The number of documents.
    pub count: u64,
    /// The documents' bytes of BSON.
    pub data_bytes: u64,
    /// The estimated bytes of storage.
    pub storage_bytes: u64,
    /// The estimated bytes of storage of each index, by name.
    pub index_bytes: Vec<(String, u64)>,
}

impl CollectionStats {
    /// Bytes of storage of all indexes.
    pub fn total_index_bytes(&self) -> u64 {
        self.index_bytes.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// The sizes of the engine's spaces at one moment. Reading them costs far more than sharing them out, so a command reads
/// them once for all its collections.
struct SpaceSizes(Stats);

impl SpaceSizes {
    fn of(engine: &dyn Engine) -> SpaceSizes {
        SpaceSizes(engine.stats())
    }

    /// The share of so many entries in a space.
    fn share(&self, space: Space, entries: u64) -> u64 {
        let space = self.0.spaces[space.index()];
        match space.approximate_keys {
            0 => 0,
            keys => {
                let bytes = u128::from(space.disk_bytes) + u128::from(space.memory_bytes);
                (bytes * u128::from(entries.min(keys)) / u128::from(keys)) as u64
            }
        }
    }
}

impl Collection {
    /// The collection's size. Those of many cost less by [`Store::database_stats`].
    pub fn stats(&self) -> CollectionStats {
        let sizes = SpaceSizes::of(self.shared.engine.as_ref());
        let (count, data_bytes) = (self.count(), self.data_bytes());
        let index_bytes = self
            .schema()
            .indexes
            .iter()
            .map(|index| {
                let bytes = if index.spec.is_id_index() { 0 } else { sizes.share(Space::Indexes, count) };
                (index.spec.name.clone(), bytes)
            })
            .collect();
        let storage_bytes = sizes.share(Space::Records, count);
        CollectionStats { count, data_bytes, storage_bytes, index_bytes }
    }
}

/// The size of a database: sums over its collections.
#[derive(Clone, Debug, Default)]
pub struct DatabaseStats {
    /// Its name.
    pub name: String,
    /// Collections.
    pub collections: u64,
    /// Views.
    pub views: u64,
    /// Documents.
    pub count: u64,
    /// Bytes of BSON.
    pub data_bytes: u64,
    /// Bytes of storage, an estimate.
    pub storage_bytes: u64,
    /// Indexes.
    pub indexes: u64,
    /// Bytes of storage of all indexes, an estimate.
    pub index_bytes: u64,
}

impl DatabaseStats {
    fn add_entry(&mut self, entry: &Entry, sizes: &SpaceSizes) {
        let Entry::Collection(collection) = entry else {
            self.views += 1;
            return;
        };
        let count = collection.count();
        let schema = collection.schema();
        self.collections += 1;
        self.count += count;
        self.data_bytes += collection.data_bytes();
        self.storage_bytes += sizes.share(Space::Records, count);
        self.indexes += schema.indexes.len() as u64;
        self.index_bytes += sizes.share(Space::Indexes, count) * schema.secondary().len() as u64;
    }
}

impl Store {
    /// The sizes of all databases, by name, in one pass over the catalog.
    pub fn database_stats(&self) -> Vec<DatabaseStats> {
        let sizes = SpaceSizes::of(self.shared.engine.as_ref());
        let mut databases: Vec<DatabaseStats> = Vec::new();
        self.each_entry(None, &mut |namespace, entry| {
            if databases.last().is_none_or(|last| last.name != namespace.database) {
                let name = namespace.database.clone();
                databases.push(DatabaseStats { name, ..DatabaseStats::default() });
            }
            if let Some(database) = databases.last_mut() {
                database.add_entry(entry, &sizes);
            }
        });
        databases
    }

    /// The size of one database.
    pub fn stats_of_database(&self, name: &str) -> DatabaseStats {
        let sizes = SpaceSizes::of(self.shared.engine.as_ref());
        let mut stats = DatabaseStats { name: name.to_owned(), ..DatabaseStats::default() };
        self.each_entry(Some(name), &mut |_, entry| stats.add_entry(entry, &sizes));
        stats
    }

    /// Bytes allocated on disk by the whole store.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.engine.stats().disk_bytes
    }
}

/// The document of `$collStats`, with the parts that `spec` asks for.
pub(crate) fn collection_stats_document(
    collection: &Collection,
    server: Option<&dyn ServerState>,
    spec: Doc<'_>,
) -> DocBuf {
    let stats = collection.stats();
    let mut out = DocBuilder::new();
    out.append("ns", collection.namespace().to_string());
    if let Some(server) = server {
        out.append("host", server.host());
    }
    out.append("localTime", Value::DateTime(crate::clock::now_millis()));
    if let (Some(server), Some(options)) = (server, spec.get_doc("latencyStats")) {
        let histograms = options.get("histograms") == Some(Value::Boolean(true));
        out.append("latencyStats", server.latency_stats(&collection.namespace(), histograms));
    }
    if let Some(options) = spec.get_doc("storageStats") {
        let scale = storage_scale(options);
        out.append("storageStats", storage_stats(collection, &stats, scale));
    }
    if spec.contains_key("count") {
        out.append("count", Value::integer(stats.count as i64));
    }
    if let Some(server) = server.filter(|_| spec.contains_key("queryExecStats")) {
        out.append("queryExecStats", server.query_stats(&collection.namespace()));
    }
    out.finish()
}

/// The part `storageStats`, which the command `collStats` shows as well. Sizes are divided by `scale`.
pub fn storage_stats(collection: &Collection, stats: &CollectionStats, scale: i64) -> DocBuf {
    let scaled = |bytes: u64| Value::integer(bytes as i64 / scale.max(1));
    let schema = collection.schema();
    let mut out = DocBuilder::new();
    out.append("size", scaled(stats.data_bytes)).append("count", Value::integer(stats.count as i64));
    if let Some(average) = stats.data_bytes.checked_div(stats.count) {
        out.append("avgObjSize", Value::integer(average as i64));
    }
    out.append("numOrphanDocs", 0)
        .append("storageSize", scaled(stats.storage_bytes))
        .append("freeStorageSize", 0)
        .append("capped", schema.options.capped.is_some());
    if let Some(capped) = schema.options.capped {
        out.append("max", Value::integer(capped.max_documents.unwrap_or(i32::MAX as u64) as i64));
        out.append("maxSize", scaled(capped.max_bytes));
    }
    out.append("nindexes", stats.index_bytes.len() as i32);
    let building: Vec<&str> = schema
        .indexes
        .iter()
        .filter(|index| !index.is_ready())
        .map(|index| index.spec.name.as_str())
        .collect();
    out.append("indexBuilds", building);
    out.append("totalIndexSize", scaled(stats.total_index_bytes()));
    out.append("totalSize", scaled(stats.storage_bytes + stats.total_index_bytes()));
    out.begin_document("indexSizes");
    for (name, bytes) in &stats.index_bytes {
        out.append(name, scaled(*bytes));
    }
    out.end().append("scaleFactor", Value::integer(scale));
    out.finish()
}

/// One document of `$indexStats`.
pub(crate) fn index_stats_document(index: &Index, host: Option<&str>) -> DocBuf {
    let (operations, since) = index.accesses();
    let mut out = DocBuilder::new();
    out.append("name", index.spec.name.as_str()).append("key", index.spec.key.as_doc());
    if let Some(host) = host {
        out.append("host", host);
    }
    out.append("accesses", doc! { "ops": operations as i64, "since": Value::DateTime(since) });
    out.append("spec", index.spec.to_doc());
    out.finish()
}
