//! `dbStats`: counts and sizes of a database.

use crate::commands::diagnostic::coll_stats::scale;
use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
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
    let stats = context.store.stats_of_database(database);
    let (objects, bytes) = (stats.count, stats.data_bytes);
    let (storage, index_size) = (stats.storage_bytes, stats.index_bytes);
    let scaled = |bytes: u64| bytes as f64 / factor as f64;
    let average = if objects == 0 { 0.0 } else { bytes as f64 / objects as f64 };
    reply.append("db", database);
    reply.append("collections", stats.collections as i64).append("views", stats.views as i64);
    reply.append("objects", objects as i64).append("avgObjSize", average);
    reply.append("dataSize", scaled(bytes)).append("storageSize", scaled(storage));
    // The engine's tables are immutable, so they contain no free space that later writes could use.
    let append_free = |name: &str, reply: &mut DocBuilder| {
        if free {
            reply.append(name, 0.0);
        }
    };
    append_free("freeStorageSize", reply);
    reply.append("indexes", stats.indexes as i64).append("indexSize", scaled(index_size));
    append_free("indexFreeStorageSize", reply);
    reply.append("totalSize", scaled(storage + index_size));
    append_free("totalFreeStorageSize", reply);
    reply.append("scaleFactor", factor);
    reply.append("fsUsedSize", scaled(context.store.disk_bytes()));
    Ok(())
}
