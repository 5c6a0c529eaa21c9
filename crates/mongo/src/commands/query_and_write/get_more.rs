//! `getMore`: the next batch of a cursor.

use crate::dispatch::{Context, Wait};
use crate::error::{CommandError, Result, code};
use crate::request::fields::{Field, missing};
use crate::server::cursors::{Cursor, News, killed};
use diwan_value::{DocBuilder, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long a `getMore` on an `awaitData` cursor waits if it has no `maxTimeMS`.
const DEFAULT_AWAIT: Duration = Duration::from_secs(1);

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let id = match request.target() {
        Value::Int64(id) => id,
        other => return Err(Field::new("getMore", "getMore", other).wrong("long")),
    };
    let mut collection = None;
    let mut batch_size = u64::MAX;
    request.read(|field| {
        match field.key {
            "collection" => collection = Some(field.string()?),
            "batchSize" => batch_size = Some(field.natural()?).filter(|size| *size > 0).unwrap_or(u64::MAX),
            "term" | "lastKnownCommittedOpTime" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let collection = collection.ok_or_else(|| missing("getMore", "collection"))?;
    let started = Instant::now();
    let cursors = &context.server.cursors;
    // A command that has waited runs again.
    let again = context.deadline.is_some();
    let mut cursor = cursors.take(id, again, |cursor| check_access(context, id, collection, cursor))?;
    // The time limit of the operation as a whole, not of this batch.
    let interrupt = cursor.resume();
    context.adopt_interrupt(&interrupt);
    // Taken before the batch is read, so that a change that comes meanwhile ends the wait at once.
    let seen = cursor.tail.as_ref().map(|tail| tail.news.mark());
    reply.begin_document("cursor").begin_array("nextBatch");
    let grow = |bytes| context.grow_batch(bytes, &interrupt);
    let (count, ended) = match cursor.fill(batch_size, false, &interrupt, reply, grow) {
        Ok(filled) => filled,
        Err(error) => {
            cursors.remove(id);
            return Err(error.in_context("Executor error during getMore"));
        }
    };
    reply.end();
    context.count("cursorid", id.unsigned_abs());
    context.count("nreturned", count);
    let namespace = cursor.namespace();
    if let Some(token) = cursor.resume_token() {
        reply.append("postBatchResumeToken", token);
    }
    if ended && cursor.tail.is_none() || cursor.has_stream_ended() {
        cursors.remove(id);
        reply.append("id", 0i64).append("ns", namespace).end();
        return Ok(());
    }
    let notify = Arc::new(Notify::new());
    let wait = match (&cursor.tail, seen) {
        (Some(tail), Some(seen)) if tail.await_data && count == 0 => {
            let until = context
                .deadline
                .unwrap_or_else(|| started + request.arguments.max_time.unwrap_or(DEFAULT_AWAIT));
            let (news, notify) = (tail.news.clone(), notify.clone());
            (started < until && !context.server.is_draining()).then(|| match &news {
                News::Collection(collection) => Wait::for_change(collection, seen, again, until, notify),
                News::Stream(stream) | News::Oplog(stream) => Wait::for_event(stream, again, until, notify),
            })
        }
        _ => None,
    };
    cursor.pause(&interrupt);
    if !cursors.put_back(id, cursor, wait.is_some().then_some(&notify)) {
        return Err(killed());
    }
    // An exhaust cursor sends its next batch without another request.
    if wait.is_none() {
        context.replies.request_rerun();
    }
    context.wait = wait;
    reply.append("id", id).append("ns", namespace).end();
    Ok(())
}

/// Refuses a `getMore` by another user, for another collection or session than the cursor's, or without the rights that
/// the cursor's command needed.
fn check_access(context: &Context<'_>, id: i64, collection: &str, cursor: &Cursor) -> Result<()> {
    let arguments = &context.request.arguments;
    if !context.caller.owns(&cursor.owner) {
        let text = format!("cursor id {id} was not created by the authenticated user");
        return Err(CommandError::new(code::UNAUTHORIZED, text));
    }
    if !cursor.rights.iter().all(|right| right.is_held_by(context.caller, &context.server.access)) {
        let text = format!("not authorized for getMore with cursor id {id}");
        return Err(CommandError::new(code::UNAUTHORIZED, text));
    }
    if cursor.database != arguments.database || cursor.collection != collection {
        let text = format!(
            "Requested getMore on namespace '{}.{collection}', but cursor belongs to a different namespace {}",
            arguments.database,
            cursor.namespace()
        );
        return Err(CommandError::new(code::UNAUTHORIZED, text));
    }
    match (cursor.session, arguments.session) {
        (Some(_), None) => {
            let text =
                format!("Cannot run getMore on cursor {id}, which was created in a session, without an lsid");
            return Err(CommandError::new(50737, text));
        }
        (own, given) if own != given => {
            let text = format!(
                "Cannot run getMore on cursor {id}, which was created in another session than the given one"
            );
            return Err(CommandError::new(50738, text));
        }
        _ => {}
    }
    let number = arguments.txn_number.filter(|_| arguments.in_transaction());
    match (cursor.transaction, number) {
        (None, Some(number)) => {
            let text = format!(
                "Cannot run getMore on cursor {id}, which was not created in a transaction, in transaction {number}"
            );
            return Err(CommandError::new(50739, text));
        }
        (Some(own), None) => {
            let text = format!(
                "Cannot run getMore on cursor {id}, which was created in transaction {own}, without a txnNumber"
            );
            return Err(CommandError::new(50740, text));
        }
        (Some(own), Some(number)) if own != number => {
            let text = format!(
                "Cannot run getMore on cursor {id}, which was created in transaction {own}, in transaction {number}"
            );
            return Err(CommandError::new(50741, text));
        }
        _ => {}
    }
    let awaits = cursor.tail.as_ref().is_some_and(|tail| tail.await_data);
    if arguments.max_time.is_some() && !awaits {
        return Err(CommandError::bad_value(
            "cannot set maxTimeMS on getMore command for a non-awaitData cursor",
        ));
    }
    Ok(())
}
