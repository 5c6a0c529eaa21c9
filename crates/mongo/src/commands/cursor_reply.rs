//! What all commands that answer with a cursor have in common.

use crate::cursors::{Cursor, FIRST_BATCH};
use crate::dispatch::Context;
use crate::error::Result;
use crate::fields::Field;
use diwan_value::DocBuilder;

/// Reads the `batchSize` of a `cursor: {…}` argument.
pub(super) fn batch_size(cursor: Field<'_>) -> Result<u64> {
    let mut size = FIRST_BATCH;
    Field::read_document("cursor", cursor.document()?, |field| {
        match field.key {
            "batchSize" => size = field.natural()?,
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    Ok(size)
}

/// Answers with the first batch of `cursor`, and keeps the cursor unless it has ended or is not wanted any more.
pub(super) fn first_batch(
    context: &mut Context<'_>,
    mut cursor: Cursor,
    batch_size: u64,
    single: bool,
    reply: &mut DocBuilder,
) -> Result<()> {
    reply.begin_document("cursor").begin_array("firstBatch");
    let (count, ended) = cursor.fill(batch_size, &context.interrupt, reply)?;
    reply.end();
    let namespace = cursor.namespace();
    cursor.session = context.request.arguments.session;
    cursor.pause(&context.interrupt);
    let keep = !single && (!ended || cursor.tail.is_some());
    let id = if keep { context.server.cursors.insert(cursor)? } else { 0 };
    context.count("nreturned", count);
    if id != 0 {
        context.count("cursorid", id.unsigned_abs());
    }
    reply.append("id", id).append("ns", namespace).end();
    Ok(())
}
