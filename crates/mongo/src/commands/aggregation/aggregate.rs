//! `aggregate`: runs a pipeline over a collection, a view, or the documents of its first stage.

use crate::commands::shared::cursor_reply::{aggregate_error, batch_size, first_batch};
use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::Request;
use crate::request::fields::missing;
use crate::rights::own;
use crate::server::cursors::{Cursor, FIRST_BATCH, News, Tail};
use crate::server::options::Topology;
use diwan_store::Namespace;
use diwan_store::ops::{Aggregate, Scope};
use diwan_store::plan::Hint;
use diwan_value::{Array, Doc, DocBuilder, Value, ValueBuf};

/// The arguments of `aggregate`.
pub(crate) struct AggregateArguments<'a> {
    pub aggregate: Aggregate<'a>,
    pub explain: bool,
    batch_size: Option<u64>,
}

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = target(request)?;
    let mut arguments = parse(request, context.scope_with_disk())?;
    let restricted = own::restricted(arguments.aggregate.pipeline, context.caller);
    if let Some(Value::Array(restricted)) = restricted.as_ref().map(ValueBuf::as_value) {
        arguments.aggregate.pipeline = restricted;
    }
    if let Some(stage) = writing_stage(arguments.aggregate.pipeline)
        && request.arguments.read_concern.and_then(|concern| concern.level) == Some("linearizable")
    {
        let text = format!(
            "Command aggregate does not support {{ readConcern: {{ level: \"linearizable\" }} }} :: caused by :: {stage} \
             cannot be used with a 'linearizable' read concern level"
        );
        return Err(CommandError::new(code::INVALID_OPTIONS, text));
    }
    if context.source.transaction().is_some() {
        check_inside_transaction(arguments.aggregate.pipeline, arguments.explain)?;
    }
    if request.arguments.api_strict {
        check_strict(arguments.aggregate.pipeline)?;
    }
    if arguments.explain {
        return crate::commands::diagnostic::explain::aggregate(
            context,
            namespace.as_ref(),
            &arguments.aggregate,
            "queryPlanner",
            reply,
        );
    }
    let Some(batch_size) = arguments.batch_size else {
        let text = "The 'cursor' option is required, except for aggregate with the explain argument";
        return Err(CommandError::new(code::FAILED_TO_PARSE, text));
    };
    let database = request.arguments.database;
    let store = context.store;
    let collection = namespace.as_ref().map_or("$cmd.aggregate", |namespace| &namespace.collection);
    let cursor = if is_change_stream(arguments.aggregate.pipeline) {
        if context.server.options.topology == Topology::Standalone {
            let text = "The $changeStream stage is only supported on replica sets";
            return Err(CommandError::new(40573, text));
        }
        if context.server.store.replica().follows() {
            let text =
                "The $changeStream stage is only supported on the primary: a follower records no events";
            return Err(CommandError::new(40573, text));
        }
        let stream = store.open_stream(namespace.as_ref(), database, &arguments.aggregate)?;
        let mut cursor = Cursor::new(stream.source, database, collection);
        cursor.tail = Some(Tail { await_data: true, news: News::Stream(stream.state) });
        cursor
    } else {
        let source = store.aggregate(namespace.as_ref(), database, &arguments.aggregate)?;
        Cursor::new(source, database, collection)
    };
    let writes = writing_stage(arguments.aggregate.pipeline).is_some();
    // A pipeline that writes runs at once, even with a batch size of 0. It returns no documents.
    let batch_size = if writes { batch_size.max(1) } else { batch_size };
    let name = cursor.namespace();
    first_batch(context, cursor, batch_size, false, reply).map_err(|error| {
        let error = aggregate_error(name, error);
        if writes { error.having_begun() } else { error }
    })?;
    // The stage does not return its commits, so the acknowledgement waits for all commits so far.
    if writes { context.fence() } else { Ok(()) }
}

/// The collection of the pipeline. `None` for `aggregate: 1`.
pub(crate) fn target(request: &Request<'_>) -> Result<Option<Namespace>> {
    match request.target() {
        Value::String(_) => Ok(Some(request.namespace()?)),
        other if crate::request::fields::int64(other) == Some(1) => Ok(None),
        other => Err(CommandError::new(
            code::FAILED_TO_PARSE,
            format!(
                "Invalid command format: the 'aggregate' field must specify a collection name or 1, not {}",
                other.tag().alias()
            ),
        )),
    }
}

/// Whether the pipeline opens a change stream.
fn is_change_stream(pipeline: Array<'_>) -> bool {
    let first = pipeline.iter().next().and_then(Value::as_doc);
    first.is_some_and(|stage| stage.contains_key("$changeStream"))
}

/// The name of the last stage if it is `$out` or `$merge`.
fn writing_stage(pipeline: Array<'_>) -> Option<&str> {
    let last = pipeline.iter().last().and_then(Value::as_doc).and_then(|stage| stage.iter().next())?;
    matches!(last.key, b"$out" | b"$merge").then(|| last.key_str())
}

/// Refuses stages that a transaction cannot run, also in nested pipelines.
fn check_inside_transaction(pipeline: Array<'_>, explain: bool) -> Result<()> {
    let unsupported = |text: String| {
        let text = format!("Operation not permitted in transaction :: caused by :: {text}");
        Err(CommandError::new(code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text))
    };
    if explain {
        return unsupported("explain cannot run within a multi-document transaction".to_owned());
    }
    for stage in pipeline.iter().filter_map(|stage| stage.as_doc()?.iter().next()) {
        let (name, spec) = (stage.key_str(), stage.value().as_doc().unwrap_or(Doc::EMPTY));
        if NOT_IN_TRANSACTIONS.contains(&name) {
            return unsupported(format!(
                "Aggregation stage {name} cannot run within a multi-document transaction"
            ));
        }
        let inner = spec.iter().filter(|field| name == "$facet" || field.key == b"pipeline");
        inner
            .filter_map(|field| field.value().as_array())
            .try_for_each(|pipeline| check_inside_transaction(pipeline, false))?;
    }
    Ok(())
}

/// The stages that transactions do not run.
const NOT_IN_TRANSACTIONS: [&str; 10] = [
    "$changeStream",
    "$collStats",
    "$currentOp",
    "$indexStats",
    "$listCatalog",
    "$listLocalSessions",
    "$listSessions",
    "$merge",
    "$out",
    "$planCacheStats",
];

/// The stages that are not in the stable API.
const UNSTABLE: [&str; 6] =
    ["$currentOp", "$indexStats", "$listLocalSessions", "$listSessions", "$planCacheStats", "$search"];

/// Refuses stages that are not in the stable API, also in nested pipelines. Of `$collStats`, only `count` is.
pub(crate) fn check_strict(pipeline: Array<'_>) -> Result<()> {
    for stage in pipeline.iter().filter_map(|stage| stage.as_doc()?.iter().next()) {
        let (name, spec) = (stage.key_str(), stage.value().as_doc().unwrap_or(Doc::EMPTY));
        let is_unstable = match name {
            "$collStats" => spec.iter().any(|option| option.key != b"count"),
            name => UNSTABLE.contains(&name),
        };
        if is_unstable {
            let text = format!("{name} is not allowed with 'apiStrict: true' in API Version 1");
            return Err(CommandError::new(code::API_STRICT_ERROR, text));
        }
        let inner = spec.iter().filter(|field| name == "$facet" || field.key == b"pipeline");
        inner.filter_map(|field| field.value().as_array()).try_for_each(check_strict)?;
    }
    Ok(())
}

/// Whether the pipeline of a command that is not parsed yet ends in a stage that writes.
pub(crate) fn request_writes(request: &Request<'_>) -> bool {
    request.body.get_array("pipeline").and_then(writing_stage).is_some()
}

/// Parses the arguments, of the command itself or of an explained one.
pub(crate) fn parse<'a>(request: &Request<'a>, scope: Scope<'a>) -> Result<AggregateArguments<'a>> {
    let mut pipeline = None;
    let mut aggregate =
        Aggregate { pipeline: Array::EMPTY, hint: Hint::None, scope, bypass_validation: false };
    let (mut explain, mut size, mut disk_use) = (false, None, true);
    request.read(|field| {
        match field.key {
            "pipeline" => pipeline = Some(field.array()?),
            "cursor" => size = Some(batch_size(field)?),
            "explain" => explain = field.flag()?,
            "allowDiskUse" => disk_use = field.flag()?,
            "hint" => aggregate.hint = field.hint()?,
            "collation" => aggregate.scope.collation = field.collation()?,
            "let" => aggregate.scope.variables = Some(field.document()?),
            "bypassDocumentValidation" => aggregate.bypass_validation = field.flag()?,
            "fromMongos" | "needsMerge" | "collectionUUID" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    aggregate.pipeline = pipeline.ok_or_else(|| missing("aggregate", "pipeline"))?;
    if !disk_use {
        aggregate.scope.temporary = None;
    }
    // The argument `cursor` is required except for `explain`.
    if explain && size.is_none() {
        size = Some(FIRST_BATCH);
    }
    Ok(AggregateArguments { aggregate, explain, batch_size: size })
}
