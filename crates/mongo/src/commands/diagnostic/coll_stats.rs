//! `collStats`: counts and sizes of a collection and its indexes.

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::request::fields::Field;
use diwan_store::stats::storage_stats;
use diwan_value::{DocBuilder, Value, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let namespace = context.request.namespace()?;
    let mut factor = 1;
    context.request.read(|field| {
        match field.key {
            "scale" => factor = scale(field)?,
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    reply.append("ns", namespace.to_string());
    match context.store.collection(&namespace)? {
        Some(collection) => {
            let stats = collection.stats();
            reply.append_all(storage_stats(&collection, &stats, factor).as_doc());
        }
        None => {
            reply.append("size", 0).append("count", 0).append("numOrphanDocs", 0).append("storageSize", 0);
            reply.append("totalSize", 0).append("nindexes", 0).append("totalIndexSize", 0);
            reply
                .append("indexDetails", doc! {})
                .append("indexSizes", doc! {})
                .append("scaleFactor", Value::integer(factor));
        }
    }
    Ok(())
}

/// Reads the argument `scale`, by which sizes are divided.
pub(crate) fn scale(field: Field<'_>) -> Result<i64> {
    let scale = field.integer()?;
    if scale < 1 {
        let text = format!("BSON field 'scale' value must be >= 1, actual value '{scale}'");
        return Err(CommandError::new(51024, text));
    }
    Ok(scale)
}
