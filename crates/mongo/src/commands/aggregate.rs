//! `aggregate`: a pipeline over a collection, a view, or documents that its first stage makes.

use super::cursor_reply::{aggregate_error, batch_size, first_batch};
use super::find::hint;
use crate::cursors::{Cursor, FIRST_BATCH};
use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::fields::missing;
use crate::options::Topology;
use crate::request::Request;
use diwan_store::Namespace;
use diwan_store::ops::{Aggregate, Scope};
use diwan_store::plan::Hint;
use diwan_value::{Array, Doc, DocBuilder, Value};

/// The arguments of an aggregate.
pub(super) struct Arguments<'a> {
    pub aggregate: Aggregate<'a>,
    pub explain: bool,
    batch_size: Option<u64>,
}

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = target(request)?;
    let arguments = parse(request, context.scope_with_disk())?;
    if let Some(stage) = writing_stage(arguments.aggregate.pipeline)
        && request.arguments.read_concern == Some("linearizable")
    {
        let text = format!(
            "Command aggregate does not support {{ readConcern: {{ level: \"linearizable\" }} }} :: caused by :: {stage} \
             cannot be used with a 'linearizable' read concern level"
        );
        return Err(CommandError::new(code::INVALID_OPTIONS, text));
    }
    if request.arguments.api_strict {
        check_strict(arguments.aggregate.pipeline)?;
    }
    if arguments.explain {
        return super::explain::aggregate(
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
    let source = context.server.store.aggregate(namespace.as_ref(), database, &arguments.aggregate);
    let source = source.map_err(|error| match CommandError::from(error) {
        error
            if error.code == code::NOT_IMPLEMENTED && is_change_stream_of_standalone(context, &arguments) =>
        {
            CommandError::new(40573, "The $changeStream stage is only supported on replica sets")
        }
        error => error,
    })?;
    let collection = namespace.as_ref().map_or("$cmd.aggregate", |namespace| &namespace.collection);
    let cursor = Cursor::new(source, database, collection);
    let writes = writing_stage(arguments.aggregate.pipeline).is_some();
    // What writes is run at once, even when no documents are asked for yet: it yields none.
    let batch_size = if writes { batch_size.max(1) } else { batch_size };
    let name = cursor.namespace();
    first_batch(context, cursor, batch_size, false, reply).map_err(|error| {
        let error = aggregate_error(name, error);
        if writes { error.having_begun() } else { error }
    })?;
    if writes { context.fence() } else { Ok(()) }
}

/// The collection that the pipeline is over; none for `aggregate: 1`.
pub(super) fn target(request: &Request<'_>) -> Result<Option<Namespace>> {
    match request.target() {
        Value::String(_) => Ok(Some(request.namespace()?)),
        other if crate::fields::int64(other) == Some(1) => Ok(None),
        other => Err(CommandError::new(
            code::FAILED_TO_PARSE,
            format!(
                "Invalid command format: the 'aggregate' field must specify a collection name or 1, not {}",
                other.tag().alias()
            ),
        )),
    }
}

/// Whether the pipeline asks a server that stands alone, and so has no history, for changes.
fn is_change_stream_of_standalone(context: &Context<'_>, arguments: &Arguments<'_>) -> bool {
    let first = arguments.aggregate.pipeline.iter().next().and_then(Value::as_doc);
    context.server.options.topology == Topology::Standalone
        && first.is_some_and(|stage| stage.contains_key("$changeStream"))
}

/// The stage that writes, if the pipeline ends in one.
fn writing_stage(pipeline: Array<'_>) -> Option<&str> {
    let last = pipeline.iter().last().and_then(Value::as_doc).and_then(|stage| stage.iter().next())?;
    matches!(last.key, b"$out" | b"$merge").then(|| last.key_str())
}

/// The stages that are no part of the stable API.
const UNSTABLE: [&str; 6] =
    ["$currentOp", "$indexStats", "$listLocalSessions", "$listSessions", "$planCacheStats", "$search"];

/// Refuses what is no part of the stable API, in pipelines within the pipeline, too; of `$collStats` only `count` is.
pub(super) fn check_strict(pipeline: Array<'_>) -> Result<()> {
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

/// Whether the pipeline of a command that is not checked yet ends in a stage that writes.
pub(super) fn request_writes(request: &Request<'_>) -> bool {
    request.body.get_array("pipeline").and_then(writing_stage).is_some()
}

pub(super) fn parse<'a>(request: &Request<'a>, scope: Scope<'a>) -> Result<Arguments<'a>> {
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
            "hint" => aggregate.hint = hint(field.value())?,
            "collation" => aggregate.scope.collation = Some(field.document()?).filter(|doc| !doc.is_empty()),
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
    if explain && size.is_none() {
        size = Some(FIRST_BATCH);
    }
    Ok(Arguments { aggregate, explain, batch_size: size })
}
