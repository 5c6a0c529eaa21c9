//! Stores for tests, and helpers that run operations on them.

use diwan_kv::MemoryEngine;
use diwan_query::Interrupt;
use diwan_store::ops::{Delete, Find, Update, Updated};
use diwan_store::{BuildProgress, Collection, Error, IndexSpec, Namespace, Result, Store, WriteOptions};
use diwan_value::{Array, Doc, DocBuf, Value};
use std::sync::Arc;

pub fn store() -> Arc<Store> {
    Store::open(Arc::new(MemoryEngine::new())).unwrap()
}

pub fn name() -> Namespace {
    Namespace::new("test", "things").unwrap()
}

pub fn collection(store: &Arc<Store>) -> Arc<Collection> {
    store.collection_or_create(&name()).unwrap()
}

pub fn insert(collection: &Collection, docs: &[DocBuf]) {
    let views: Vec<Doc<'_>> = docs.iter().map(DocBuf::as_doc).collect();
    let report = collection.insert(&views, true, WriteOptions::default()).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    assert_eq!(report.inserted, docs.len());
}

pub fn index(collection: &Arc<Collection>, spec: DocBuf) {
    let spec = IndexSpec::parse(spec.as_doc(), None).unwrap();
    collection.create_indexes(vec![spec], &Interrupt::new(), &BuildProgress::default()).unwrap();
}

pub fn try_find(store: &Arc<Store>, request: &Find<'_>) -> Result<Vec<DocBuf>> {
    let mut source = store.find(&name(), request)?;
    let mut found = Vec::new();
    while source.advance(&Interrupt::new())? {
        found.push(source.current().to_owned());
    }
    Ok(found)
}

pub fn find(store: &Arc<Store>, request: &Find<'_>) -> Vec<DocBuf> {
    try_find(store, request).unwrap()
}

pub fn find_ids(store: &Arc<Store>, filter: &DocBuf) -> Vec<i64> {
    let request = Find { filter: filter.as_doc(), ..Find::default() };
    let mut ids: Vec<i64> = find(store, &request)
        .iter()
        .map(|doc| doc.as_doc().get("_id").unwrap().as_i64_exact().unwrap())
        .collect();
    ids.sort_unstable();
    ids
}

/// Whether an insert was refused because an index cannot hold the document.
pub fn is_refused_by_index(error: &Error) -> bool {
    const REASONS: [&str; 4] = [
        "parallel arrays",
        "hashed indexes do not currently support array values",
        "duplicate key",
        "Ambiguous field name found in array",
    ];
    let message = error.to_string();
    REASONS.iter().any(|reason| message.contains(reason))
}

pub fn update(
    collection: &Arc<Collection>,
    filter: &DocBuf,
    update: &DocBuf,
    multi: bool,
    upsert: bool,
) -> Updated {
    let request = Update {
        filter: filter.as_doc(),
        update: Some(Value::Document(update.as_doc())),
        multi,
        upsert,
        ..Update::default()
    };
    collection.update(&request).unwrap()
}

pub fn delete(collection: &Arc<Collection>, filter: &DocBuf, multi: bool) -> u64 {
    collection.delete(&Delete { filter: filter.as_doc(), multi, ..Delete::default() }).unwrap().count
}

pub fn stages(bytes: &[u8]) -> Array<'_> {
    Array::trusted(bytes)
}
