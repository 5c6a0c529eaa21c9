//! `dbStats`: counts and sizes of a database.

use super::coll_stats::scale;
use crate::dispatch::Context;
use crate::error::Result;
use diwan_store::Entry;
use diwan_value::DocBuilder;

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let (mut factor, mut free) = (1, false);
    context.request.read(|field| {
        match field.key {
            "scale" => factor = scale(field)?,
            "freeStorage" => free = field.integer()? != 0,
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let database = context.request.arguments.database;
    let (mut collections, mut views, mut objects, mut bytes) = (0i64, 0i64, 0u64, 0u64);
    let (mut storage, mut indexes, mut index_size) = (0u64, 0i64, 0u64);
    for (_, entry) in context.server.store.entries_of(database) {
        let Entry::Collection(collection) = entry else {
            views += 1;
            continue;
        };
        let stats = collection.stats();
        collections += 1;
        objects += stats.count;
        bytes += stats.data_bytes;
        storage += stats.storage_bytes;
        indexes += stats.index_bytes.len() as i64;
        index_size += stats.total_index_bytes();
    }
    let scaled = |bytes: u64| bytes as f64 / factor as f64;
    let average = if objects == 0 { 0.0 } else { bytes as f64 / objects as f64 };
    reply.append("db", database).append("collections", collections).append("views", views);
    reply.append("objects", objects as i64).append("avgObjSize", average);
    reply.append("dataSize", scaled(bytes)).append("storageSize", scaled(storage));
    // Tables have no holes that later writes could fill.
    let free = |name: &str, reply: &mut DocBuilder| {
        if free {
            reply.append(name, 0.0);
        }
    };
    free("freeStorageSize", reply);
    reply.append("indexes", indexes).append("indexSize", scaled(index_size));
    free("indexFreeStorageSize", reply);
    reply.append("totalSize", scaled(storage + index_size));
    free("totalFreeStorageSize", reply);
    reply.append("scaleFactor", factor);
    reply.append("fsUsedSize", scaled(context.server.store.disk_bytes()));
    Ok(())
}
