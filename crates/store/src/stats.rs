//! Sizes and counts of collections and indexes, as the statistics commands show them.

use crate::collection::Collection;
use crate::index::Index;
use crate::store::Store;
use diwan_kv::{Space, SpaceStats};
use diwan_query::pipeline::storage_scale;
use diwan_value::{Doc, DocBuf, DocBuilder, Value, doc};

/// What is known of a collection's size. Storage is this collection's share of its space by its number of keys, with what
/// lies in memory and in the journal until tables are written.
#[derive(Clone, Debug, Default)]
pub struct CollectionStats {
    /// Documents.
    pub count: u64,
    /// Bytes of BSON.
    pub data_bytes: u64,
    /// Bytes of storage, an estimate.
    pub storage_bytes: u64,
    /// Bytes of storage of each index, estimates.
    pub index_bytes: Vec<(String, u64)>,
}

impl CollectionStats {
    /// Bytes of storage of all indexes.
    pub fn total_index_bytes(&self) -> u64 {
        self.index_bytes.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl Collection {
    /// The collection's size.
    pub fn stats(&self) -> CollectionStats {
        let stats = self.shared.engine.stats();
        let (count, data_bytes) = (self.count(), self.data_bytes());
        let share = |space: SpaceStats, entries: u64| match space.approximate_keys {
            0 => 0,
            keys => {
                let bytes = u128::from(space.disk_bytes) + u128::from(space.memory_bytes);
                (bytes * u128::from(entries.min(keys)) / u128::from(keys)) as u64
            }
        };
        let of = |space: Space| stats.spaces[space.index()];
        let index_bytes = self
            .schema()
            .indexes
            .iter()
            .map(|index| {
                let bytes = if index.spec.is_id_index() { 0 } else { share(of(Space::Indexes), count) };
                (index.spec.name.clone(), bytes)
            })
            .collect();
        CollectionStats { count, data_bytes, storage_bytes: share(of(Space::Records), count), index_bytes }
    }
}

impl Store {
    /// Bytes allocated on disk by the whole store.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.engine.stats().disk_bytes
    }
}

/// The document of `$collStats`, with the parts that `spec` asks for.
pub(crate) fn collection_stats_document(
    collection: &Collection,
    host: Option<&str>,
    spec: Doc<'_>,
) -> DocBuf {
    let stats = collection.stats();
    let mut out = DocBuilder::new();
    out.append("ns", collection.namespace().to_string());
    if let Some(host) = host {
        out.append("host", host);
    }
    out.append("localTime", Value::DateTime(crate::clock::now_millis()));
    if let Some(options) = spec.get_doc("storageStats") {
        let scale = storage_scale(options);
        out.append("storageStats", storage_stats(collection, &stats, scale));
    }
    if spec.contains_key("count") {
        out.append("count", Value::integer(stats.count as i64));
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
