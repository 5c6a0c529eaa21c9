//! What `insert`, `update`, `delete` and `bulkWrite` have in common: limits, errors of single writes, retries.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::fields::Field;
use crate::identity::MAX_WRITE_BATCH;
use crate::profiler::is_profile;
use crate::request::Request;
use diwan_store::{Namespace, RememberedStatement, RetryRecord, SessionTurn};
use diwan_value::{Doc, DocBuf, DocBuilder};

/// The collection that a command writes to; those that only the server writes are refused.
pub(super) fn writable(request: &Request<'_>) -> Result<Namespace> {
    let namespace = request.namespace()?;
    check_writable(&namespace)?;
    Ok(namespace)
}

/// Refuses to write to collections that only the server writes, and to names that no collection has.
pub(super) fn check_writable(namespace: &Namespace) -> Result<()> {
    let Some(name) = namespace.collection.strip_prefix("system.") else {
        let is_inner = namespace.collection.contains(".system.");
        if is_inner && !namespace.collection.contains(".system.sessions") {
            return Err(CommandError::bad_value(format!("Invalid namespace: {namespace}")));
        }
        return Ok(());
    };
    if name == "views" || is_profile(namespace) {
        return Err(CommandError::new(code::INVALID_NAMESPACE, format!("cannot write to {namespace}")));
    }
    let is_known = match namespace.database.as_str() {
        "admin" => matches!(name, "roles" | "version" | "keys" | "new_users" | "backup_users"),
        "config" => matches!(name, "sessions" | "indexBuilds"),
        "local" => matches!(name, "replset" | "healthlog"),
        _ => false,
    };
    if is_known || matches!(name, "users" | "js") {
        return Ok(());
    }
    Err(CommandError::new(code::INVALID_NAMESPACE, format!("Invalid system namespace: {namespace}")))
}

/// The documents of a write command's own field, within MongoDB's limits.
pub(super) fn batch<'a>(field: Field<'a>) -> Result<Vec<Doc<'a>>> {
    let mut docs = Vec::new();
    for doc in field.documents()? {
        match doc {
            Ok(doc) => docs.push(doc),
            Err(value) => {
                let key = format!("{}.{}", field.key, docs.len());
                return Err(Field::new(field.owner(), &key, value).wrong("object"));
            }
        }
    }
    check_size(docs.len())?;
    Ok(docs)
}

/// Refuses a command without writes, or with too many.
pub(super) fn check_size(count: usize) -> Result<()> {
    if (1..=MAX_WRITE_BATCH).contains(&count) {
        return Ok(());
    }
    let text = format!("Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {count} operations.");
    Err(CommandError::new(code::INVALID_LENGTH, text))
}

/// The statements of a write that is done at most once, however often it is sent.
pub(super) struct Retry<'a> {
    /// Session and transaction number; `None` if the write is not to be remembered.
    number: Option<(&'a [u8], i64)>,
    done: Vec<RememberedStatement>,
    /// Keeps the same command from being done beside this one when it is sent again.
    _turn: Option<SessionTurn>,
    /// The number of the command's first statement.
    first: u32,
}

impl<'a> Retry<'a> {
    /// Finds out what was done under the command's transaction number before.
    pub(super) fn begin(context: &mut Context<'a>, first: Option<i64>) -> Result<Retry<'a>> {
        let arguments = &context.request.arguments;
        let number = arguments.session.as_ref().zip(arguments.txn_number);
        let number = number.map(|(session, number)| (session.as_slice(), number));
        let (done, turn) = match number {
            Some((session, number)) => {
                let (done, turn) = context.server.store.begin_retryable(session, number)?;
                (done, Some(turn))
            }
            None => (Vec::new(), None),
        };
        if !done.is_empty() {
            // Done is not yet durable.
            context.fence()?;
        }
        let first = first.and_then(|first| u32::try_from(first).ok()).unwrap_or(0);
        Ok(Retry { number, done, _turn: turn, first })
    }

    /// Whether the write is remembered at all.
    pub(super) fn is_on(&self) -> bool {
        self.number.is_some()
    }

    /// What statement `at` of the command answered when it was done before; `None` if it was not.
    pub(super) fn remembered(&self, at: usize) -> Option<Doc<'_>> {
        let number = self.statement(at);
        let statement = self.done.iter().find(|statement| statement.statement == number)?;
        Some(statement.result.as_ref().map_or(Doc::EMPTY, DocBuf::as_doc))
    }

    /// What is to be remembered of statement `at`.
    pub(super) fn record<'r>(&'r self, at: usize, result: Option<Doc<'r>>) -> Option<RetryRecord<'r>> {
        let (session, transaction) = self.number?;
        Some(RetryRecord { session, transaction, statement: self.statement(at), result })
    }

    /// Refuses a write that changes many documents: it cannot be remembered as one statement.
    pub(super) fn refuse_multi(&self) -> Result<()> {
        if self.is_on() {
            let text = "Cannot use (or request) retryable writes with multi=true";
            return Err(CommandError::new(code::INVALID_OPTIONS, text));
        }
        Ok(())
    }

    fn statement(&self, at: usize) -> u32 {
        self.first.saturating_add(u32::try_from(at).unwrap_or(u32::MAX))
    }
}

/// Appends `writeErrors`, if there are any.
pub(super) fn append_errors(errors: &[(usize, CommandError)], reply: &mut DocBuilder) {
    if errors.is_empty() {
        return;
    }
    reply.begin_array("writeErrors");
    for (at, (index, error)) in errors.iter().enumerate() {
        let mut out = DocBuilder::new();
        error.write_write_error(*index, &mut out);
        reply.append_indexed(at, out.finish());
    }
    reply.end();
}

/// Whether an error ends the whole command rather than the one write: it would meet every other write as well.
pub(super) fn is_fatal(error: &CommandError) -> bool {
    use diwan_query::code as query;
    matches!(
        error.code,
        query::MAX_TIME_MS_EXPIRED
            | query::INTERRUPTED
            | code::INTERRUPTED_AT_SHUTDOWN
            | code::OPERATION_FAILED
    )
}
