//! From a message to its reply: find the command's row, check what all commands have in common, run it.

use crate::arguments::WriteConcern;
use crate::client::Client;
use crate::commands::{self, Command};
use crate::error::{CommandError, Result, code};
use crate::exhaust::Replies;
use crate::metrics::Class;
use crate::operations::Operation;
use crate::options::{Durability, Topology};
use crate::profiler::{Ended, Statement, Trace};
use crate::request::Request;
use crate::server::Server;
use crate::weight::{is_long_message, may_take_long};
use crate::wire::{self, Content, MESSAGE_PREFIX, REPLY_PREFIX};
use diwan_kv::{Batch, CommitId};
use diwan_query::{Examined, Interrupt};
use diwan_store::ops::Scope;
use diwan_store::{Collection, Namespace};
use diwan_value::{Doc, DocBuf, DocBuilder, ObjectId, Value, doc};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What a command sees besides its request.
pub(crate) struct Context<'a> {
    pub server: &'a Arc<Server>,
    pub client: &'a Arc<Client>,
    pub request: &'a Request<'a>,
    /// Asked by long loops; it also tallies what they read.
    pub interrupt: Interrupt,
    /// What had been read when the command began: a cursor's batches share a tally.
    pub read_before: Examined,
    /// The last commit that the command made: what an acknowledgement may have to wait for.
    pub commit: Option<CommitId>,
    /// The command's number among the running ones, if it is listed there.
    pub operation: Option<i32>,
    /// Until when a command that has waited before may wait.
    pub deadline: Option<Instant>,
    /// What the profiler is to know of the command, if its database is profiled.
    pub trace: Option<Trace>,
    /// Set by a command that has no answer yet: it is run again, from the start, after the wait.
    pub wait: Option<Wait>,
    /// What was answered to the same message before, and whether more will be.
    pub replies: &'a mut Replies,
}

impl Context<'_> {
    /// What every operation of the store is told: here without disk space and collation.
    pub(crate) fn scope(&self) -> Scope<'static> {
        Scope {
            interrupt: self.interrupt.clone(),
            cluster_time: self.server.keeps_cluster_time().then(|| self.server.clock.now()),
            ..Scope::default()
        }
    }

    /// The same for operations that may use temporary files.
    pub(crate) fn scope_with_disk(&self) -> Scope<'static> {
        Scope { temporary: self.server.options.temporary.clone(), ..self.scope() }
    }

    /// Lets the acknowledgement wait for everything that has been committed so far: for commands that do not learn of
    /// their own commits.
    pub(crate) fn fence(&mut self) -> Result<()> {
        // An empty batch writes nothing and answers with the last commit.
        let last = self.server.engine.commit(Batch::new())?;
        self.committed(last);
        Ok(())
    }

    /// Whether the client does not want to know what became of its write: then the reply says nothing of it.
    pub(crate) fn is_unacknowledged(&self) -> bool {
        self.server.concerns.of(self.request.arguments.write_concern.as_ref()).is_unacknowledged()
    }

    /// Goes on with what a cursor was opened with.
    pub(crate) fn go_on(&mut self, interrupt: &Interrupt) {
        self.interrupt = interrupt.clone();
        self.read_before = interrupt.tally().examined();
        if let Some(operation) = self.operation {
            self.server.operations.go_on(operation, interrupt);
        }
    }

    /// What the command has read so far.
    pub(crate) fn examined(&self) -> Examined {
        self.interrupt.tally().examined().since(self.read_before)
    }

    /// Tells the profiler how many documents the command was about, under the name of the entry's field.
    pub(crate) fn count(&mut self, name: &'static str, count: u64) {
        if let Some(trace) = &mut self.trace {
            trace.count(name, count);
        }
    }

    /// Refuses a command that expects a collection to have another UUID than it has.
    pub(crate) fn expect_uuid(&self, namespace: &Namespace, uuid: [u8; 16]) -> Result<()> {
        let store = &self.server.store;
        if store.entry(namespace).is_some_and(|entry| entry.uuid() == uuid) {
            return Ok(());
        }
        let entries = store.entries_of(&namespace.database);
        let actual =
            entries.into_iter().find(|(_, entry)| entry.uuid() == uuid).map(|(name, _)| name.collection);
        let details = doc! {
            "db": namespace.database.as_str(),
            "collectionUUID": Value::Binary { subtype: 4, bytes: &uuid },
            "expectedCollection": namespace.collection.as_str(),
            "actualCollection": actual,
        };
        let text = "Collection UUID does not match that specified";
        Err(CommandError {
            details: Some(details),
            ..CommandError::new(code::COLLECTION_UUID_MISMATCH, text)
        })
    }

    /// Begins a statement of the command, of which the profiler records each by itself; nothing if it records none.
    pub(crate) fn begin_statement(&self) -> Option<(Instant, Examined)> {
        self.trace.as_ref()?;
        self.interrupt.tally().forget_plans();
        Some((Instant::now(), self.examined()))
    }

    /// Ends a statement: its kind of work, collection and fields, and how many documents it was about.
    pub(crate) fn end_statement(
        &mut self,
        begun: Option<(Instant, Examined)>,
        kind: &'static str,
        namespace: &Namespace,
        fields: &[(&str, Option<Value<'_>>)],
        outcome: std::result::Result<impl AsRef<[(&'static str, u64)]>, &CommandError>,
    ) {
        let Some((began, before)) = begun else { return };
        let statement = Statement {
            kind,
            database: namespace.database.clone(),
            collection: namespace.collection.clone(),
            command: shown_fields(fields),
            took: began.elapsed(),
            read: self.examined().since(before),
            plan: self.interrupt.tally().plan_summary(),
            error: outcome.as_ref().err().map(|error| CommandError::clone(error)),
            counts: outcome.map_or_else(|_| Vec::new(), |counts| counts.as_ref().to_vec()),
        };
        if let Some(trace) = &mut self.trace {
            trace.statements.push(statement);
        }
    }

    /// Notes a commit of this command.
    pub(crate) fn committed(&mut self, commit: CommitId) {
        self.commit = self.commit.max(Some(commit));
    }
}

/// What has to happen before the reply is sent.
pub(crate) enum Wait {
    /// Nothing.
    Nothing,
    /// The commit becomes durable.
    Durable(CommitId),
    /// Something changes, or the time is over: then the command is run again.
    Change { until: Instant, changed: Pin<Box<dyn Future<Output = ()> + Send>> },
    /// The connection is closed instead.
    Close,
}

impl Wait {
    /// A wait for a change of a collection after sequence `seen`. Who waited before, and got a change that was not for
    /// him, lets some more gather first: a busy collection is not read for every write.
    pub(crate) fn for_change(collection: &Arc<Collection>, seen: u64, again: bool, until: Instant) -> Wait {
        let news = Arc::new(Notify::new());
        let waker = news.clone();
        let subscription = collection.on_change(Box::new(move || waker.notify_one()));
        let collection = collection.clone();
        let changed = Box::pin(async move {
            if collection.last_sequence() == seen {
                news.notified().await;
            }
            drop(subscription);
            if again {
                tokio::time::sleep(GATHERING).await;
            }
        });
        Wait::Change { until, changed }
    }

    /// A wait for the time alone.
    pub(crate) fn for_time(until: Instant) -> Wait {
        Wait::Change { until, changed: Box::pin(std::future::pending()) }
    }
}

/// How long changes gather for a reader that none was for yet.
const GATHERING: Duration = Duration::from_millis(5);

/// Handles one whole message and writes the reply to `output`, which stays empty where none is sent.
pub(crate) fn handle(
    server: &Arc<Server>,
    client: &Arc<Client>,
    message: &[u8],
    deadline: Option<Instant>,
    replies: &mut Replies,
    scratch: &mut Vec<u8>,
    output: &mut Vec<u8>,
) -> Wait {
    output.clear();
    // A message is counted once, however often its command is run.
    if deadline.is_none() && !replies.have_begun() {
        server.metrics.requests.add(1);
    }
    replies.begin(false);
    let incoming = match wire::read(message, scratch) {
        Ok(incoming) => incoming,
        Err(error) if error.is_fatal() => {
            tracing::info!(connection = client.id, %error, "closing a connection that does not speak the protocol");
            return Wait::Close;
        }
        Err(error) => {
            fail(server, message, CommandError::new(error.code(), error.to_string()), output);
            return Wait::Nothing;
        }
    };
    let request_id = incoming.request_id;
    match incoming.content {
        Content::Message(message) => {
            output.resize(MESSAGE_PREFIX, 0);
            let request = Request::parse(message.body, &message.sequences, None);
            replies.begin(message.exhaust_allowed && !message.more_to_come);
            let wait = answer(server, client, message.body, request, deadline, replies, output);
            if message.more_to_come {
                output.clear();
                return match wait {
                    Wait::Durable(_) => Wait::Nothing,
                    other => other,
                };
            }
            let number = server.next_message_id();
            wire::finish_message(output, number, replies.response_to(request_id), replies.follow());
            if replies.follow() && !matches!(wait, Wait::Change { .. }) {
                replies.note(number);
            }
            if let Some(compressor) =
                incoming.compressor.filter(|_| commands::may_be_compressed(message.body))
                && let Some(packed) = wire::compression::pack(output, compressor)
            {
                *output = packed;
            }
            wait
        }
        Content::Query(query) => {
            output.resize(REPLY_PREFIX, 0);
            let request = match query.database {
                Some(database) if commands::is_hello(query.body) => {
                    Request::parse(query.body, &[], Some(database))
                }
                _ => Err(unsupported_query(query.body)),
            };
            let wait = answer(server, client, query.body, request, deadline, replies, output);
            wire::finish_reply(output, server.next_message_id(), request_id);
            wait
        }
    }
}

/// Replaces what is in `output` by an error in reply to `message`, for errors that show after the command ran.
pub(crate) fn fail(server: &Server, message: &[u8], error: CommandError, output: &mut Vec<u8>) {
    server.metrics.errors.add(1);
    output.clear();
    output.resize(MESSAGE_PREFIX, 0);
    let mut reply = DocBuilder::with_buffer(std::mem::take(output));
    error.write(&[], &mut reply);
    *output = reply.finish_buffer();
    let request_id =
        wire::Header::read(message).and_then(|header| header.ok()).map_or(0, |header| header.request_id);
    wire::finish_message(output, server.next_message_id(), request_id, false);
}

fn unsupported_query(body: Doc<'_>) -> CommandError {
    let name = body.iter().next().map(|element| element.key_str()).unwrap_or_default();
    CommandError::new(
        code::UNSUPPORTED_OP_QUERY_COMMAND,
        format!("Unsupported OP_QUERY command: {name}. The client driver may require an upgrade."),
    )
}

/// Runs a command and appends its reply's document to `output`.
fn answer(
    server: &Arc<Server>,
    client: &Arc<Client>,
    body: Doc<'_>,
    request: Result<Request<'_>>,
    deadline: Option<Instant>,
    replies: &mut Replies,
    output: &mut Vec<u8>,
) -> Wait {
    let start = output.len();
    let mut reply = DocBuilder::with_buffer(std::mem::take(output));
    let (request, refused) = match request {
        Ok(request) => (Some(request), None),
        Err(error) => (None, Some(error)),
    };
    let outcome = match (&request, refused) {
        (Some(request), _) => run(server, client, request, deadline, replies, &mut reply),
        (None, Some(error)) => Err(error),
        (None, None) => Ok(Wait::Nothing),
    };
    let wait = match outcome {
        Ok(wait) => {
            reply.append("ok", 1.0);
            wait
        }
        Err(error) => {
            server.metrics.errors.add(1);
            let name = body.iter().next().map(|element| element.key_str()).unwrap_or_default();
            tracing::debug!(connection = client.id, command = name, code = error.code, error = %error.message, "command failed");
            let mut buffer = reply.finish_buffer();
            buffer.truncate(start);
            reply = DocBuilder::with_buffer(buffer);
            replies.begin(false);
            let arguments = request.as_ref().map(|request| &request.arguments);
            let retryable = arguments
                .is_some_and(|arguments| arguments.txn_number.is_some() && !arguments.in_transaction());
            error.write(error.labels(retryable), &mut reply);
            if let Some(request) = request.filter(|request| has_begun_to_write(request, &error)) {
                append_concern_error(
                    &server.concerns.of(request.arguments.write_concern.as_ref()),
                    &mut reply,
                );
            }
            Wait::Nothing
        }
    };
    if server.keeps_cluster_time() {
        let now = server.clock.now();
        reply.begin_document("$clusterTime").append("clusterTime", now);
        reply.begin_document("signature");
        reply.append("hash", Value::Binary { subtype: 0, bytes: &[0; 20] }).append("keyId", 0i64);
        reply.end().end().append("operationTime", now);
    }
    *output = reply.finish_buffer();
    wait
}

/// Checks what all commands have in common and runs the command's own function.
fn run(
    server: &Arc<Server>,
    client: &Arc<Client>,
    request: &Request<'_>,
    deadline: Option<Instant>,
    replies: &mut Replies,
    reply: &mut DocBuilder,
) -> Result<Wait> {
    let Some(command) = commands::find(request.name) else {
        return Err(CommandError::new(
            code::COMMAND_NOT_FOUND,
            format!("no such command: '{}'", request.name),
        ));
    };
    let started = Instant::now();
    check(server, command, request)?;
    if let Some(session) = request.arguments.session
        && !server.sessions.touch(session, started)
    {
        return Err(CommandError::new(261, "cannot add session into the cache: too many sessions"));
    }
    let interrupt = Interrupt::with_deadline(
        request.arguments.max_time.filter(|_| request.name != "getMore").map(|limit| started + limit),
    );
    let mut context = Context {
        server,
        client,
        request,
        interrupt,
        read_before: Examined::default(),
        commit: None,
        operation: None,
        deadline,
        trace: server.profiler.follow(command, request),
        wait: None,
        replies,
    };
    if let Some(uuid) = request.arguments.collection_uuid.filter(|_| command.names_collection()) {
        context.expect_uuid(&request.namespace()?, uuid)?;
    }
    let listed = command.is_long()
        || (command.is_bulk() && is_long_message(request))
        || (command.looks_up() && may_take_long(request));
    let outcome = if listed {
        let operation = server.operations.start(Operation {
            client: client.clone(),
            database: request.arguments.database.to_owned(),
            command: shown(request.body),
            session: request.arguments.session,
            started,
            ends_with_client: commands::ends_with_client(command, request),
            interrupt: context.interrupt.clone(),
        });
        context.operation = Some(operation.id);
        (command.run)(&mut context, reply)
    } else {
        (command.run)(&mut context, reply)
    };
    let took = started.elapsed();
    // What waits is run again, and recorded when it has its answer.
    if let Some(trace) = context.trace.take().filter(|_| context.wait.is_none()) {
        let shown = || shown(request.body);
        let ended = Ended {
            context: &context,
            command,
            shown: &shown,
            took,
            error: outcome.as_ref().err(),
            reply_bytes: reply.len(),
        };
        ended.record(trace);
    }
    outcome?;
    server.metrics.count(command.kind, 1);
    server.metrics.took(command.class(), took);
    if let Some(collection) = command.names_collection().then(|| request.target().as_str()).flatten() {
        server.usage.record(request.arguments.database, collection, command.kind, command.class(), took);
    }
    if server.profiler.slow().includes(took) {
        tracing::info!(
            connection = client.id,
            command = request.name,
            database = request.arguments.database,
            millis = took.as_millis() as u64,
            plan = context.interrupt.tally().plan_summary(),
            keys_examined = context.examined().keys,
            docs_examined = context.examined().documents,
            "slow command"
        );
    }
    if let Some(wait) = context.wait {
        return Ok(wait);
    }
    let Some(commit) = context.commit else {
        if command.writes() {
            append_concern_error(&server.concerns.of(request.arguments.write_concern.as_ref()), reply);
        }
        return Ok(Wait::Nothing);
    };
    server.clock.tick();
    acknowledgement(server, request, commit, reply)
}

/// What the reply to a write waits for, as its write concern says.
fn acknowledgement(
    server: &Server,
    request: &Request<'_>,
    commit: CommitId,
    reply: &mut DocBuilder,
) -> Result<Wait> {
    let concern = server.concerns.of(request.arguments.write_concern.as_ref());
    append_concern_error(&concern, reply);
    let wait = match server.options.durability {
        Durability::Always => !concern.is_unacknowledged(),
        Durability::WriteConcern => concern.waits_for_sync(),
    };
    Ok(if wait { Wait::Durable(commit) } else { Wait::Nothing })
}

/// Whether a command failed after it had begun to write. MongoDB waits for the write concern then, whatever was written.
fn has_begun_to_write(request: &Request<'_>, error: &CommandError) -> bool {
    commands::find(request.name).is_some_and(|command| !commands::ends_with_client(command, request))
        && (error.has_begun || code::AFTER_BEGINNING.contains(&error.code))
}

/// Tells of a write concern that no set of one member satisfies, whether or not there was something to write.
fn append_concern_error(concern: &WriteConcern, reply: &mut DocBuilder) {
    if let Some((code, text)) = concern.unsatisfiable() {
        reply.begin_document("writeConcernError").append("code", code);
        reply.append("codeName", crate::error::name(code)).append("errmsg", text).end();
    }
}

/// The checks that need no command's own knowledge.
fn check(server: &Server, command: &Command, request: &Request<'_>) -> Result<()> {
    let arguments = &request.arguments;
    let name = request.name;
    diwan_store::check_database_name(arguments.database)?;
    if command.is_admin_only() && arguments.database != "admin" {
        let text = format!("{name} may only be run against the admin database.");
        return Err(CommandError::new(code::UNAUTHORIZED, text));
    }
    if arguments.api_strict && !command.is_in_api() {
        let text = format!(
            "Provided apiStrict:true, but the command {name} is not in API Version 1. Information on supported \
             commands and migrations in API Version 1 can be found at \
             https://dochub.mongodb.org/core/manual-versioned-api."
        );
        return Err(CommandError::new(code::API_STRICT_ERROR, text));
    }
    if arguments.txn_number.is_none() && !arguments.in_transaction() {
        return Ok(());
    }
    if arguments.session.is_none() {
        let text = "Transaction number requires a session ID to also be specified";
        return Err(CommandError::new(code::INVALID_OPTIONS, text));
    }
    if server.options.topology == Topology::Standalone {
        let text = "Transaction numbers are only allowed on a replica set member or mongos";
        return Err(CommandError::new(code::ILLEGAL_OPERATION, text));
    }
    if command.ends_transactions() {
        return Ok(());
    }
    if arguments.in_transaction() {
        let text = "Transactions are not supported by this server";
        return Err(CommandError::new(code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text));
    }
    if !command.is_retryable() {
        let text = format!(
            "txnNumber may only be provided for multi-document transactions and retryable write commands. \
             autocommit:false was not provided, and {name} is not a retryable write command."
        );
        return Err(CommandError::new(50768, text));
    }
    Ok(())
}

/// How long the parts of a command may be that are shown whole.
const SHOWN_BYTES: usize = 1024;

/// A statement as the profiler shows it: without the parts that are long.
fn shown_fields(fields: &[(&str, Option<Value<'_>>)]) -> DocBuf {
    let length = |value: Value<'_>| match value {
        Value::Document(doc) => doc.as_bytes().len(),
        Value::Array(array) => array.as_bytes().len(),
        _ => 0,
    };
    let mut out = DocBuilder::new();
    let mut is_cut = false;
    for (name, value) in fields.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
        match length(value) <= SHOWN_BYTES {
            true => {
                out.append(name, value);
            }
            false => is_cut = true,
        }
    }
    if is_cut {
        out.append("$truncated", true);
    }
    out.finish()
}

/// A command as `currentOp` and the profiler show it: cut short where it is long.
fn shown(body: Doc<'_>) -> DocBuf {
    if body.as_bytes().len() <= SHOWN_BYTES {
        return body.to_owned();
    }
    let mut short = DocBuilder::new();
    for element in body.iter().filter(|element| element.raw.bytes.len() <= 256) {
        short.append_element(element);
    }
    short.append("$truncated", true);
    short.finish()
}

/// The identifier of the only election there ever was.
pub(crate) const ELECTION: ObjectId = ObjectId([0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1]);

/// The class of latencies that a kind of command counts for.
pub(crate) fn class(writes: bool, reads: bool) -> Class {
    match (writes, reads) {
        (true, _) => Class::Writes,
        (false, true) => Class::Reads,
        (false, false) => Class::Commands,
    }
}
