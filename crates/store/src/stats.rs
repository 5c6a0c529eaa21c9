//! Sizes and counts of collections and indexes, as the statistics commands show them.

use crate::collection::Collection;
use crate::index::Index;
use crate::store::Store;
use diwan_kv::{Space, SpaceStats};
use diwan_value::{Doc, DocBuf, DocBuilder, doc};

/// What is known of a collection's size. Bytes on disk are this collection's share of its space by its data.
#[derive(Clone, Debug, Default)]
pub struct CollectionStats {
    /// Documents.
    pub count: u64,
    /// Bytes of BSON.
    pub data_bytes: u64,
    /// Bytes on disk, an estimate.
    pub storage_bytes: u64,
    /// Bytes on disk of each index, estimates.
    pub index_bytes: Vec<(String, u64)>,
}

impl CollectionStats {
    /// Bytes on disk of all indexes.
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
            keys => (space.disk_bytes as u128 * u128::from(entries.min(keys)) / u128::from(keys)) as u64,
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
pub(crate) fn collection_stats_document(collection: &Collection, spec: Doc<'_>) -> DocBuf {
    let stats = collection.stats();
    let mut out = DocBuilder::new();
    out.append("ns", collection.namespace().to_string());
    out.append("localTime", diwan_value::Value::DateTime(crate::clock::now_millis()));
    if let Some(options) = spec.get_doc("storageStats") {
        let scale = options
            .get("scale")
            .and_then(diwan_value::Value::as_i64_exact)
            .filter(|&scale| scale > 0)
            .unwrap_or(1);
        out.append("storageStats", storage_stats(collection, &stats, scale));
    }
    if spec.contains_key("count") {
        out.append("count", stats.count as i64);
    }
    out.finish()
}

/// The part `storageStats`, which the command `collStats` shows as well. Sizes are divided by `scale`.
pub fn storage_stats(collection: &Collection, stats: &CollectionStats, scale: i64) -> DocBuf {
    let scaled = |bytes: u64| bytes as i64 / scale;
    let schema = collection.schema();
    let mut out = DocBuilder::new();
    out.append("size", scaled(stats.data_bytes)).append("count", stats.count as i64);
    if let Some(average) = stats.data_bytes.checked_div(stats.count) {
        out.append("avgObjSize", average as i64);
    }
    out.append("numOrphanDocs", 0)
        .append("storageSize", scaled(stats.storage_bytes))
        .append("freeStorageSize", 0i64)
        .append("capped", schema.options.capped.is_some());
    if let Some(capped) = schema.options.capped {
        out.append("max", capped.max_documents.unwrap_or(i32::MAX as u64) as i64);
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
    out.end().append("scaleFactor", scale);
    out.finish()
}

/// One document of `$indexStats`.
pub(crate) fn index_stats_document(index: &Index) -> DocBuf {
    let (operations, since) = index.accesses();
    doc! {
        "name": index.spec.name.as_str(),
        "key": index.spec.key.as_doc(),
        "accesses": { "ops": operations as i64, "since": diwan_value::Value::DateTime(since) },
        "spec": index.spec.to_doc()
    }
}
