//! From a message to its reply: find the command's row, check the rules that all commands share, call its function.

mod abbreviate;
mod context;
mod transaction;
mod visit;
mod wait;

pub(crate) use abbreviate::abbreviated_command;
pub(crate) use context::Context;
use transaction::Source;
pub(crate) use transaction::check_namespace;
pub(crate) use wait::Wait;

use crate::commands::{self, Command};
use crate::connection::client::Client;
use crate::connection::exhaust::Replies;
use crate::error::{CommandError, LabelledBy, Result, code};
use crate::fail_points::Failure;
use crate::monitoring::operations::Operation;
use crate::monitoring::profile_entry::{FinishedCommand, begin_trace};
use crate::monitoring::usage::Used;
use crate::request::Request;
use crate::request::arguments::{WriteConcern, is_generic};
use crate::request::fields::int64;
use crate::request::weight::{is_long_message, may_take_long};
use crate::rights::Check;
use crate::server::Server;
use crate::server::options::Durability;
use crate::server::replica_set::check_member;
use crate::server::sessions::SessionError;
use crate::wire::{self, Content, MESSAGE_PREFIX, REPLY_PREFIX};
use diwan_access::Caller;
use diwan_kv::CommitId;
use diwan_query::{Examined, Interrupt};
use diwan_store::events::ClusterClock;
use diwan_store::replica::NotReplicated;
use diwan_store::slow::SlowOperation;
use diwan_value::{Doc, DocBuf, DocBuilder, Timestamp, Value, doc};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Handles one whole message. Writes the reply to `output`, which stays empty if no reply is sent.
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
    // A message is counted once, even if its command runs several times.
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
            if matches!(wait, Wait::Close) {
                output.clear();
                return wait;
            }
            // The sender of such a message does not read a reply, so there is none that could wait for the disk.
            if message.more_to_come {
                output.clear();
                return match wait {
                    Wait::Durable(_) => Wait::Nothing,
                    other => other,
                };
            }
            let number = server.next_message_id();
            wire::finish_message(output, number, replies.response_to(request_id), replies.follow());
            // A command that waits has written a reply that is not sent.
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

/// Replaces the contents of `output` with an error in reply to `message`, for failures after the command has run.
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

/// Runs a command and appends the document of its reply to `output`.
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
    // A command that waits and runs again has not failed the first time.
    let failure = request
        .as_ref()
        .filter(|_| deadline.is_none() && !replies.have_begun())
        .and_then(|request| struck(server, client, request));
    if failure.as_ref().is_some_and(|failure| failure.closes) {
        *output = reply.finish_buffer();
        return Wait::Close;
    }
    ClusterClock::take_own();
    let outcome = match (&request, refused) {
        (Some(request), _) => match failure.as_ref().and_then(Failure::error) {
            Some(error) => Err(error),
            None => {
                let mut outcome = run_command(server, client, request, deadline, true, replies, &mut reply);
                if let Err(error) = &outcome
                    && error.code == EXECUTED_ELSEWHERE
                {
                    // Now it finds the results.
                    let mut buffer = reply.finish_buffer();
                    buffer.truncate(start);
                    reply = DocBuilder::with_buffer(buffer);
                    outcome = run_command(server, client, request, deadline, false, replies, &mut reply);
                }
                outcome
            }
        },
        (None, Some(error)) => Err(error),
        (None, None) => Ok(Wait::Nothing),
    };
    let wait = match outcome {
        Ok(wait) => {
            if let Some((failure, request)) = failure.as_ref().zip(request.as_ref()) {
                append_failure(failure, request, &mut reply);
            }
            reply.append("ok", 1.0);
            wait
        }
        Err(error) => {
            server.metrics.errors.add(1);
            let name = body.iter().next().map(|element| element.key_str()).unwrap_or_default();
            tracing::debug!(connection = client.id, command = name, code = error.code, error = %error.message, "command failed");
            // The command may have appended fields before it failed.
            let mut buffer = reply.finish_buffer();
            buffer.truncate(start);
            reply = DocBuilder::with_buffer(buffer);
            replies.begin(false);
            let labels = match failure.as_ref().and_then(|failure| failure.labels.as_ref()) {
                Some(labels) => labels.iter().map(String::as_str).collect(),
                None => error.labels(request.as_ref().map_or(LabelledBy::Nothing, labelled_by)).to_vec(),
            };
            error.write(&labels, &mut reply);
            if code::STATE_CHANGE.contains(&error.code) && server.store.replica().follows() {
                append_topology_version(server, &mut reply);
            }
            if let Some(request) = request.filter(|request| has_begun_to_write(request, &error)) {
                append_concern_error(
                    server,
                    &server.concerns.of(request.arguments.write_concern.as_ref()),
                    &mut reply,
                );
            }
            Wait::Nothing
        }
    };
    // A follower has what its primary had at a time of the primary's clock. After a start it does not know the time yet.
    let applied = server.store.replica().applied();
    if server.keeps_cluster_time() && applied != Some(0) {
        let applied = applied.map(Timestamp::from_bits);
        let now = applied.unwrap_or_else(|| server.store.clock().now());
        // A stream that starts at the time of a write shows the write.
        let operation_time = ClusterClock::take_own().filter(|_| applied.is_none()).unwrap_or(now);
        reply.begin_document("$clusterTime").append("clusterTime", now);
        reply.begin_document("signature");
        reply.append("hash", Value::Binary { subtype: 0, bytes: &[0; 20] }).append("keyId", 0i64);
        reply.end().end().append("operationTime", operation_time);
    }
    *output = reply.finish_buffer();
    wait
}

/// What a fail point does to a command. A delay has passed when this returns.
fn struck(server: &Server, client: &Client, request: &Request<'_>) -> Option<Failure> {
    let points = server.fail_points.as_ref()?;
    let namespace = request.namespace().map(|namespace| namespace.to_string()).unwrap_or_default();
    let failure = points.strike(request.name, client.application().as_deref(), &namespace)?;
    if let Some(delay) = failure.delay {
        std::thread::sleep(delay);
    }
    Some(failure)
}

/// Appends the version of the topology in which a command was refused. A driver that has seen that topology already does not
/// look at the server again.
fn append_topology_version(server: &Server, reply: &mut DocBuilder) {
    let counter = server.store.replica().version();
    reply.append("topologyVersion", doc! { "processId": server.process, "counter": counter });
}

/// What the labels of a failed command depend on.
fn labelled_by(request: &Request<'_>) -> LabelledBy {
    let ends = commands::by_name(request.name).is_some_and(Command::ends_transactions);
    match (request.arguments.txn_number, request.arguments.in_transaction()) {
        (None, _) => LabelledBy::Nothing,
        (Some(_), false) => LabelledBy::RetryableWrite,
        (Some(_), true) if ends => LabelledBy::EndOfTransaction,
        (Some(_), true) => LabelledBy::Statement,
    }
}

/// Appends the write concern error and the labels of a fail point to the reply of a command that has run.
fn append_failure(failure: &Failure, request: &Request<'_>, reply: &mut DocBuilder) {
    let Some(error) = &failure.concern_error else { return };
    reply.append("writeConcernError", error.clone());
    let code = error.as_doc().get("code").and_then(int64).and_then(|code| i32::try_from(code).ok());
    let labels: Vec<&str> = match &failure.labels {
        Some(labels) => labels.iter().map(String::as_str).collect(),
        None => CommandError::new(code.unwrap_or_default(), "").labels(labelled_by(request)).to_vec(),
    };
    if !labels.is_empty() {
        reply.append("errorLabels", labels);
    }
}

/// The code of a command that another process has executed while this one did. No client sees it: the command runs again.
const EXECUTED_ELSEWHERE: i32 = -1;

/// Finds the command, checks the rules that all commands share, calls the command's function, and counts it. `is_first` says
/// that it has not run before.
fn run_command(
    server: &Arc<Server>,
    client: &Arc<Client>,
    request: &Request<'_>,
    deadline: Option<Instant>,
    is_first: bool,
    replies: &mut Replies,
    reply: &mut DocBuilder,
) -> Result<Wait> {
    let Some(command) = commands::by_name(request.name) else {
        return Err(CommandError::new(
            code::COMMAND_NOT_FOUND,
            format!("no such command: '{}'", request.name),
        ));
    };
    let started = Instant::now();
    check_shared_rules(server, command, request)?;
    if command.depends_on_documents() && (!request.arguments.in_transaction() || command.ends_transactions())
    {
        server.store.catch_up()?;
    }
    let caller = renew(server, client)?;
    Check { server, caller: &caller, request, address: client.peer.ip(), needed: None }
        .run(&command.needs)?;
    check_member(server, command, request)?;
    // Who has not signed in has no sessions: they would fill the table.
    if let Some(session) = request.arguments.session.filter(|_| !matches!(caller, Caller::Anonymous))
        && let Err(error) = server.sessions.touch(session, &caller, started)
    {
        return Err(match error {
            SessionError::TooMany => {
                CommandError::new(261, "cannot add session into the cache: too many sessions")
            }
            SessionError::NotOwner => {
                CommandError::new(code::UNAUTHORIZED, "the session belongs to another user")
            }
        });
    }
    // The `maxTimeMS` of a getMore limits its waiting. The cursor has the time limit of the whole operation.
    let interrupt = Interrupt::with_deadline(
        request.arguments.max_time.filter(|_| request.name != "getMore").map(|limit| started + limit),
    );
    // Registering a short command would cost more than running it. But beside transactions that have written something it
    // may have to wait for them, or for a retryable write of its session that does.
    let may_wait = (command.writes() || request.arguments.start_transaction) && server.store.has_claims();
    // On a follower, a read that must see something may have to wait for it.
    let after = request.arguments.read_concern.as_ref().and_then(|concern| concern.after);
    let may_lag = after.is_some() && server.store.replica().follows();
    let registered = may_wait
        || may_lag
        || command.is_long()
        || (command.is_bulk() && is_long_message(request))
        || (command.looks_up() && may_take_long(request));
    let operation = registered.then(|| {
        server.operations.start(Operation {
            client: client.clone(),
            owner: caller.owner(),
            database: request.arguments.database.to_owned(),
            command: abbreviated_command(request.body),
            session: request.arguments.session,
            started,
            ends_with_client: commands::ends_with_client(command, request),
            interrupt: interrupt.clone(),
        })
    });
    if let Some(after) = after {
        server.store.replica().wait_applied(after.to_bits(), || interrupt.check())?;
    }
    let source = transaction::source(server, command, request, &caller, &interrupt)?;
    let mut context = Context {
        server,
        client,
        request,
        store: source.store()?,
        source: &source,
        has_write_errors: false,
        caller: &caller,
        interrupt,
        read_before: Examined::default(),
        commit: None,
        operation: operation.as_ref().map(|operation| operation.id),
        deadline,
        trace: begin_trace(server, command, request),
        returned: 0,
        wait: None,
        replies,
    };
    if let Some(uuid) = request.arguments.collection_uuid.filter(|_| command.names_collection()) {
        context.expect_uuid(&request.namespace()?, uuid)?;
    }
    let outcome = (command.run)(&mut context, reply);
    drop(operation);
    let is_without_effect = outcome.is_err() || context.commit.is_none() || context.has_write_errors;
    if is_without_effect && is_first && is_executed_elsewhere(&context)? {
        return Err(CommandError::new(EXECUTED_ELSEWHERE, "the command runs again"));
    }
    let outcome = outcome.and_then(|done| {
        context.store.check_readable()?;
        Ok(done)
    });
    let took = started.elapsed();
    // A command that waits runs again, and is profiled when it has its answer.
    if let Some(trace) = context.trace.take().filter(|_| context.wait.is_none()) {
        let abbreviated = || abbreviated_command(request.body);
        let finished = FinishedCommand {
            context: &context,
            command,
            abbreviated: &abbreviated,
            took,
            read: context.examined(),
            plan: context.interrupt.tally().plan_summary(),
            error: outcome.as_ref().err(),
            reply_bytes: reply.len(),
        };
        finished.record(trace);
    }
    outcome?;
    count_command(&context, command, took, registered);
    if let Some(wait) = context.wait {
        return Ok(wait);
    }
    let (commit, has_write_errors) = (context.commit, context.has_write_errors);
    if let Source::Transaction(turn) = source {
        // Any error aborts the transaction, also that of a single document.
        return if has_write_errors { Ok(Wait::Nothing) } else { turn.keep().map(|()| Wait::Nothing) };
    }
    let Some(commit) = commit else {
        // A write that changed nothing still reports a write concern that cannot be satisfied.
        if command.writes() {
            append_concern_error(
                server,
                &server.concerns.of(request.arguments.write_concern.as_ref()),
                reply,
            );
        }
        return Ok(Wait::Nothing);
    };
    acknowledgement(server, request, commit, reply)
}

/// Whether another process has executed the retryable write of a command meanwhile, or a part of it.
fn is_executed_elsewhere(context: &Context<'_>) -> Result<bool> {
    let arguments = &context.request.arguments;
    let number = arguments.txn_number.filter(|_| !arguments.in_transaction());
    match arguments.session.as_ref().zip(number) {
        Some((session, number)) => {
            Ok(context.store.is_done_elsewhere(session.as_slice(), number, &context.interrupt)?)
        }
        None => Ok(false),
    }
}

/// The caller as of now. What the connection knows of its user is kept for the next command.
fn renew(server: &Server, client: &Client) -> Result<Caller> {
    let mut kept = client.caller.lock();
    let caller = server.access.renew(&kept)?;
    // The connection of a server without users belongs to nobody when the first user is made.
    *kept = match &caller {
        Caller::Everybody => Caller::Anonymous,
        caller => caller.clone(),
    };
    Ok(caller)
}

/// Counts a command that has succeeded, and logs it if it was slow.
fn count_command(context: &Context<'_>, command: &Command, took: Duration, registered: bool) {
    let (server, request) = (context.server, context.request);
    server.metrics.count(command.kind, 1);
    server.metrics.took(command.class(), took);
    if let Some(collection) = command.names_collection().then(|| request.target().as_str()).flatten() {
        // Lookups by `_id` are not registered, and do not scan.
        let plan = if registered { context.interrupt.tally().plan_summary() } else { None };
        let scanned = plan.is_some_and(|plan| plan.split(", ").any(|stage| stage == "COLLSCAN"));
        server.usage.record(&Used {
            database: request.arguments.database,
            collection,
            kind: command.kind,
            class: command.class(),
            took,
            scanned,
            tailable: scanned && request.body.get("tailable") == Some(Value::Boolean(true)),
        });
    }
    if server.profiler.slow().includes(took) {
        tracing::info!(
            connection = context.client.id,
            command = request.name,
            database = request.arguments.database,
            millis = took.as_millis() as u64,
            plan = context.interrupt.tally().plan_summary(),
            keys_examined = context.examined().keys,
            docs_examined = context.examined().documents,
            "slow command"
        );
        if command.names_collection()
            && let Ok(namespace) = request.namespace()
        {
            let query = query_of(context);
            server.store.slow().record(&SlowOperation {
                namespace: &namespace,
                operation: request.name,
                query: query.as_doc(),
                took,
                read: context.examined(),
                returned: context.returned,
                plan: context.interrupt.tally().plan_summary(),
            });
        }
    }
}

/// What a command asks for, without its collection, session and database.
fn query_of(context: &Context<'_>) -> DocBuf {
    let shown = abbreviated_command(context.request.body);
    let mut out = DocBuilder::new();
    for element in shown.as_doc().iter().skip(1) {
        if !is_generic(element.key_str()) {
            out.append_element(element);
        }
    }
    out.finish()
}

/// Decides by the write concern whether the reply to a write waits for the disk.
fn acknowledgement(
    server: &Server,
    request: &Request<'_>,
    commit: CommitId,
    reply: &mut DocBuilder,
) -> Result<Wait> {
    let concern = server.concerns.of(request.arguments.write_concern.as_ref());
    match concern.unsatisfiable(server.store.replica().members().len()) {
        None if concern.followers() > 0 => wait_for_followers(server, &concern, reply),
        _ => append_concern_error(server, &concern, reply),
    }
    let wait = match server.options.durability {
        Durability::Always => !concern.is_unacknowledged(),
        Durability::WriteConcern => concern.waits_for_sync(),
    };
    Ok(if wait { Wait::Durable(commit) } else { Wait::Nothing })
}

/// Whether a command failed after it had begun to write. MongoDB then waits for the write concern even if the command
/// wrote nothing.
fn has_begun_to_write(request: &Request<'_>, error: &CommandError) -> bool {
    commands::by_name(request.name).is_some_and(|command| !commands::ends_with_client(command, request))
        && (error.has_begun || code::AFTER_BEGINNING.contains(&error.code))
}

/// Appends `writeConcernError` for a write concern that the set cannot satisfy.
fn append_concern_error(server: &Server, concern: &WriteConcern, reply: &mut DocBuilder) {
    if let Some((code, text)) = concern.unsatisfiable(server.store.replica().members().len()) {
        write_concern_error(code, &text, reply);
        reply.end();
    }
}

/// Begins the document of an error.
fn write_concern_error(code: i32, text: &str, reply: &mut DocBuilder) {
    reply.begin_document("writeConcernError").append("code", code);
    reply.append("codeName", crate::error::name(code)).append("errmsg", text);
}

/// Waits until enough followers have the write on disk. The thread waits with it: an acknowledgement by others costs
/// much more than that.
fn wait_for_followers(server: &Server, concern: &WriteConcern, reply: &mut DocBuilder) {
    let deadline = concern.timeout.map(|limit| Instant::now() + limit);
    let replica = server.store.replica();
    match replica.wait_replicated(concern.followers(), deadline, || !server.is_draining()) {
        Ok(()) => {}
        Err(NotReplicated::Late) => {
            write_concern_error(code::WRITE_CONCERN_TIMEOUT, "waiting for replication timed out", reply);
            let millis = concern.timeout.map_or(0, |limit| limit.as_millis() as i64);
            let members = concern.followers() as i32 + 1;
            let given = doc! { "w": members, "wtimeout": millis, "provenance": "clientSupplied" };
            reply.append("errInfo", doc! { "wtimeout": true, "writeConcern": given }).end();
        }
        Err(NotReplicated::Abandoned) => {
            write_concern_error(code::INTERRUPTED_AT_SHUTDOWN, "interrupted at shutdown", reply);
            reply.end();
        }
        Err(NotReplicated::TooFew) => {
            let text = "Not enough data-bearing nodes";
            write_concern_error(code::UNSATISFIABLE_WRITE_CONCERN, text, reply);
            reply.end();
        }
    }
}

/// Checks the rules that follow from the command's row and the generic arguments alone.
fn check_shared_rules(server: &Server, command: &Command, request: &Request<'_>) -> Result<()> {
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
    transaction::check_rules(server, command, request)
}
