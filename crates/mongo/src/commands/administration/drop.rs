//! `drop`: drops a collection with its indexes, or a view. Dropping a missing collection succeeds.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::monitoring::profiler;
use diwan_store::Entry;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let namespace = context.request.namespace()?;
    if let Some(field) = context.request.fields().find(|field| field.key != "collectionUUID") {
        return Err(field.unknown());
    }
    let store = context.store;
    if profiler::is_profile(&namespace) && context.server.profiler.level(&namespace.database) > 0 {
        let text = "turn off profiling before dropping system.profile collection";
        return Err(CommandError::new(code::ILLEGAL_OPERATION, text));
    }
    match store.entry(&namespace) {
        Some(Entry::Collection(collection)) => {
            reply.append("nIndexesWas", collection.schema().indexes.len() as i32);
        }
        Some(Entry::View(_)) => {}
        None => return Ok(()),
    }
    store.drop_collection(&namespace)?;
    context.server.usage.forget(&namespace.database, Some(&namespace.collection));
    reply.append("ns", namespace.to_string());
    context.fence()
}
