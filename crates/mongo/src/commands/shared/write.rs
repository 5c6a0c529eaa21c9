//! Code that the write commands share: limits, write errors, and retryable writes.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::monitoring::profiler::is_profile;
use crate::request::Request;
use crate::request::fields::Field;
use crate::server::identity::MAX_WRITE_BATCH;
use diwan_store::events::is_oplog;
use diwan_store::{Namespace, RememberedStatement, RetryRecord, SessionTurn};
use diwan_value::{Doc, DocBuf, DocBuilder};

/// The collection that a command writes to, if clients may write to it.
pub(crate) fn writable_namespace(request: &Request<'_>) -> Result<Namespace> {
    let namespace = request.namespace()?;
    check_writable(&namespace)?;
    Ok(namespace)
}

/// Refuses collections that only the server writes to, and names that are not valid.
pub(crate) fn check_writable(namespace: &Namespace) -> Result<()> {
    if is_oplog(namespace) {
        return Err(CommandError::new(code::INVALID_NAMESPACE, format!("cannot write to {namespace}")));
    }
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

/// The documents or statements in the argument of a write command, if their number is within the limits.
pub(crate) fn read_batch<'a>(field: Field<'a>) -> Result<Vec<Doc<'a>>> {
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

/// Refuses a command with no writes or too many.
pub(crate) fn check_size(count: usize) -> Result<()> {
    if (1..=MAX_WRITE_BATCH).contains(&count) {
        return Ok(());
    }
    let text = format!("Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {count} operations.");
    Err(CommandError::new(code::INVALID_LENGTH, text))
}

/// The retry state of one write command: which of its statements an earlier attempt has already done.
pub(crate) struct Retry<'a> {
    /// Session and transaction number. `None` if the write is not retryable.
    number: Option<(&'a [u8], i64)>,
    done: Vec<RememberedStatement>,
    /// Excludes a second attempt of the same command while this one runs.
    _turn: Option<SessionTurn>,
    /// The number of the command's first statement.
    first: u32,
}

impl<'a> Retry<'a> {
    /// Loads what an earlier attempt with the same transaction number has done.
    pub(crate) fn begin(context: &mut Context<'a>, first: Option<i64>) -> Result<Retry<'a>> {
        let arguments = &context.request.arguments;
        let number = arguments.txn_number.filter(|_| !arguments.in_transaction());
        let number = arguments.session.as_ref().zip(number);
        let number = number.map(|(session, number)| (session.as_slice(), number));
        let (done, turn) = match number {
            Some((session, number)) => {
                let (done, turn) = context.store.begin_retryable(session, number, &context.interrupt)?;
                (done, Some(turn))
            }
            None => (Vec::new(), None),
        };
        if !done.is_empty() {
            // The earlier attempt has committed, but its commit may not be durable yet.
            context.fence()?;
        }
        let first = first.and_then(|first| u32::try_from(first).ok()).unwrap_or(0);
        Ok(Retry { number, done, _turn: turn, first })
    }

    /// Whether the write is retryable.
    pub(crate) fn is_retryable(&self) -> bool {
        self.number.is_some()
    }

    /// The result of statement `at` from an earlier attempt. `None` if no attempt has done it.
    pub(crate) fn earlier_result(&self, at: usize) -> Option<Doc<'_>> {
        let number = self.statement(at);
        let statement = self.done.iter().find(|statement| statement.statement == number)?;
        Some(statement.result.as_ref().map_or(Doc::EMPTY, DocBuf::as_doc))
    }

    /// The record to store with statement `at`.
    pub(crate) fn record<'r>(&'r self, at: usize, result: Option<Doc<'r>>) -> Option<RetryRecord<'r>> {
        let (session, transaction) = self.number?;
        Some(RetryRecord { session, transaction, statement: self.statement(at), result })
    }

    /// Refuses a `multi` write if the command is retryable, because one record cannot cover several documents.
    pub(crate) fn refuse_multi(&self) -> Result<()> {
        if self.is_retryable() {
            let text = "Cannot use (or request) retryable writes with multi=true";
            return Err(CommandError::new(code::INVALID_OPTIONS, text));
        }
        Ok(())
    }

    /// The statement number of statement `at` of the command.
    fn statement(&self, at: usize) -> u32 {
        self.first.saturating_add(u32::try_from(at).unwrap_or(u32::MAX))
    }
}

/// Appends `writeErrors`, if there are any.
pub(crate) fn append_errors(
    context: &mut Context<'_>,
    errors: &[(usize, CommandError)],
    reply: &mut DocBuilder,
) {
    if errors.is_empty() {
        return;
    }
    context.has_write_errors = true;
    reply.begin_array("writeErrors");
    for (at, (index, error)) in errors.iter().enumerate() {
        let mut out = DocBuilder::new();
        error.write_write_error(*index, &mut out);
        reply.append_indexed(at, out.finish());
    }
    reply.end();
}

/// Whether an error ends the whole command, because every other write of the command would fail in the same way.
pub(crate) fn is_fatal(error: &CommandError) -> bool {
    use diwan_query::code as query;
    matches!(
        error.code,
        query::MAX_TIME_MS_EXPIRED
            | query::INTERRUPTED
            | query::WRITE_CONFLICT
            | code::TRANSACTION_TOO_LARGE
            | code::TRANSACTION_TOO_LARGE_FOR_CACHE
            | code::INTERRUPTED_AT_SHUTDOWN
            | code::OPERATION_FAILED
    )
}
