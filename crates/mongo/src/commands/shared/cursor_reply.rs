//! Replies with a cursor: the first batch, the argument `cursor`, and the errors of execution.

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::request::fields::Field;
use crate::server::cursors::{Cursor, FIRST_BATCH};
use diwan_store::{Entry, Namespace};
use diwan_value::DocBuilder;
use std::fmt;

/// Adds MongoDB's prefix to an error that occurred at a document. `own` is the command's prefix; over a view, every read
/// is an aggregation.
pub(crate) fn executor_error(
    context: &Context<'_>,
    namespace: &Namespace,
    own: impl fmt::Display,
    error: CommandError,
) -> CommandError {
    match context.store.entry(namespace) {
        Some(Entry::View(_)) => aggregate_error(namespace, error),
        _ => error.in_context(own),
    }
}

/// Adds the prefix of an aggregation to an error that occurred at a document.
pub(crate) fn aggregate_error(namespace: impl fmt::Display, error: CommandError) -> CommandError {
    error.in_context(format_args!("Executor error during aggregate command on namespace: {namespace}"))
}

/// Reads the `batchSize` of a `cursor: {…}` argument.
pub(crate) fn batch_size(cursor: Field<'_>) -> Result<u64> {
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

/// Appends the first batch of `cursor`, and registers the cursor for later batches unless it has ended or the client
/// wants a `single` batch.
pub(crate) fn first_batch(
    context: &mut Context<'_>,
    mut cursor: Cursor,
    batch_size: u64,
    single: bool,
    reply: &mut DocBuilder,
) -> Result<()> {
    reply.begin_document("cursor").begin_array("firstBatch");
    let interrupt = context.interrupt.clone();
    let grow = |bytes| context.grow_batch(bytes, &interrupt);
    let (count, ended) = cursor.fill(batch_size, single, &interrupt, reply, grow)?;
    reply.end();
    if let Some(token) = cursor.resume_token() {
        reply.append("postBatchResumeToken", token);
    }
    let namespace = cursor.namespace();
    cursor.session = context.request.arguments.session;
    cursor.transaction = context.source.transaction();
    cursor.owner = context.caller.owner();
    cursor.pause(&context.interrupt);
    let keep = !single && (!ended || cursor.tail.is_some()) && !cursor.has_stream_ended();
    if keep {
        cursor.rights = context.needed_rights()?;
    }
    let id = if keep { context.server.cursors.insert(cursor)? } else { 0 };
    context.count("nreturned", count);
    if id != 0 {
        context.count("cursorid", id.unsigned_abs());
    }
    if let Some(time) = context.source.snapshot_time() {
        reply.append("atClusterTime", time);
    }
    reply.append("id", id).append("ns", namespace).end();
    Ok(())
}
