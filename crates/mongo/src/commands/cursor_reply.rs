//! What all commands that answer with a cursor have in common.

use crate::cursors::{Cursor, FIRST_BATCH};
use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::fields::Field;
use diwan_store::{Entry, Namespace};
use diwan_value::DocBuilder;
use std::fmt;

/// What MongoDB says before the errors of a command's documents; over a view every command that reads is an aggregation.
pub(super) fn executor_error(
    context: &Context<'_>,
    namespace: &Namespace,
    own: impl fmt::Display,
    error: CommandError,
) -> CommandError {
    match context.server.store.entry(namespace) {
        Some(Entry::View(_)) => aggregate_error(namespace, error),
        _ => error.in_context(own),
    }
}

/// The same for an aggregation.
pub(super) fn aggregate_error(namespace: impl fmt::Display, error: CommandError) -> CommandError {
    error.in_context(format_args!("Executor error during aggregate command on namespace: {namespace}"))
}

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
