//! `listIndexes`: the specifications of a collection's indexes.

use crate::commands::shared::cursor_reply::{batch_size, first_batch};
use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::server::cursors::{Cursor, FIRST_BATCH};
use diwan_query::pipeline::DocList;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let namespace = context.request.namespace()?;
    let mut size = FIRST_BATCH;
    context.request.read(|field| {
        match field.key {
            "cursor" => size = batch_size(field)?,
            "includeIndexBuildInfo" | "includeBuildUUIDs" => {
                field.flag()?;
            }
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let collection = context.store.collection(&namespace)?.ok_or_else(|| {
        CommandError::new(code::NAMESPACE_NOT_FOUND, format!("ns does not exist: {namespace}"))
    })?;
    let schema = collection.schema();
    let ready = schema.indexes.iter().filter(|index| index.is_ready());
    let specs = ready.map(|index| index.spec.to_doc().to_owned()).collect();
    let cursor = Cursor::new(Box::new(DocList::new(specs)), &namespace.database, &namespace.collection);
    first_batch(context, cursor, size, false, reply)
}
