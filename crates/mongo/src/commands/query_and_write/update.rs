//! `update`: updates the first document, or all documents, that match each statement. A statement with `upsert` inserts
//! a document if none matches.

use crate::commands::shared::write::{Retry, append_errors, is_fatal, read_batch, writable_namespace};
use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::monitoring::metrics::OperationKind;
use crate::request::fields::{Field, missing};
use diwan_store::Namespace;
use diwan_store::ops::{Scope, Update, Updated};
use diwan_value::{Doc, DocBuilder, Value, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = writable_namespace(request)?;
    let (mut statements, mut ordered, mut variables, mut first) = (None, true, None, None);
    let mut bypass_validation = false;
    request.read(|field| {
        match field.key {
            "updates" => statements = Some(read_batch(field)?),
            "ordered" => ordered = field.flag()?,
            "let" => variables = Some(field.document()?),
            "bypassDocumentValidation" => bypass_validation = field.flag()?,
            "stmtId" => first = Some(field.integer()?),
            "bypassEmptyTsReplacement" if !field.boolean()? => {}
            "bypassEmptyTsReplacement" => {
                return Err(CommandError::not_implemented("update.bypassEmptyTsReplacement"));
            }
            "collectionUUID" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let statements = statements.ok_or_else(|| missing("update", "updates"))?;
    let scope = Scope { variables, ..context.scope() };
    let updates = statements
        .iter()
        .map(|doc| Ok(Update { bypass_validation, ..parse(*doc, &scope)? }))
        .collect::<Result<Vec<_>>>()?;
    // The dispatcher counts one more.
    context.server.metrics.count(OperationKind::Update, updates.len() as u64 - 1);
    let retry = Retry::begin(context, first)?;
    let (mut matched, mut modified, mut errors, mut upserted) = (0, 0, Vec::new(), Vec::new());
    for (at, update) in updates.iter().enumerate() {
        match run_statement(context, &namespace, update, at, &retry) {
            Ok(outcome) => {
                matched += outcome.matched;
                modified += outcome.modified;
                if let Some(id) = outcome.upserted {
                    upserted.push(doc! { "index": at as i32, "_id": id });
                }
            }
            Err(error) if is_fatal(&error) => return Err(error),
            Err(error) => {
                errors.push((at, error));
                if ordered {
                    break;
                }
            }
        }
    }
    if context.is_unacknowledged() {
        return Ok(());
    }
    let number = |count: u64| i32::try_from(count).unwrap_or(i32::MAX);
    reply.append("n", number(matched)).append("nModified", number(modified));
    if !upserted.is_empty() {
        reply.append("upserted", upserted);
    }
    append_errors(context, &errors, reply);
    Ok(())
}

/// Runs one statement unless an earlier attempt has done it, and records it for the profiler.
pub(crate) fn run_statement(
    context: &mut Context<'_>,
    namespace: &Namespace,
    update: &Update<'_>,
    at: usize,
    retry: &Retry<'_>,
) -> Result<Updated> {
    let begun = context.begin_statement();
    let outcome = apply_once(context, namespace, update, at, retry);
    let fields = [
        ("q", Some(Value::Document(update.filter))),
        ("u", update.update),
        ("multi", Some(Value::Boolean(update.multi))),
        ("upsert", Some(Value::Boolean(update.upsert))),
        ("sort", update.sort.map(Value::Document)),
        ("arrayFilters", update.array_filters.map(Value::Array)),
        ("collation", update.scope.collation.map(Value::Document)),
    ];
    let counts = outcome.as_ref().map(|done| {
        let upserted = u64::from(done.upserted.is_some());
        [("nMatched", done.matched - upserted), ("nModified", done.modified), ("nUpserted", upserted)]
    });
    context.end_statement(begun, "update", namespace, &fields, counts);
    outcome
}

/// Runs one statement unless an earlier attempt has done it.
fn apply_once(
    context: &mut Context<'_>,
    namespace: &Namespace,
    update: &Update<'_>,
    at: usize,
    retry: &Retry<'_>,
) -> Result<Updated> {
    if update.multi {
        retry.refuse_multi()?;
    }
    if let Some(result) = retry.earlier_result(at) {
        return Ok(Updated::from_doc(result));
    }
    let update = Update { retry: retry.record(at, None), ..update.clone() };
    let outcome = context.store.update(namespace, &update)?;
    if let Some(commit) = outcome.commit {
        context.committed(commit);
    }
    Ok(outcome)
}

/// Parses one statement.
pub(crate) fn parse<'a>(statement: Doc<'a>, scope: &Scope<'a>) -> Result<Update<'a>> {
    let mut update = Update { scope: scope.clone(), ..Update::default() };
    let (mut filter, mut modification) = (None, None);
    Field::read_document("update.updates", statement, |field| {
        match field.key {
            "q" => filter = Some(field.document()?),
            "u" => modification = Some(update_argument(field)?),
            "multi" => update.multi = field.boolean()?,
            "upsert" => update.upsert = field.boolean()?,
            "arrayFilters" => update.array_filters = Some(field.array()?),
            "sort" => update.sort = Some(field.document()?),
            "hint" => update.hint = field.hint()?,
            "collation" => update.scope.collation = field.collation()?,
            "c" => return Err(CommandError::not_implemented("update.updates.c")),
            "upsertSupplied" | "sampleId" | "allowShardKeyUpdatesWithoutFullShardKeyInQuery" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    update.filter = filter.ok_or_else(|| missing("update.updates", "q"))?;
    update.update = Some(modification.ok_or_else(|| missing("update.updates", "u"))?);
    check_multi(&update)?;
    Ok(update)
}

/// Reads the update of a statement: a document or a pipeline.
pub(crate) fn update_argument<'a>(field: Field<'a>) -> Result<Value<'a>> {
    match field.value() {
        value @ (Value::Document(_) | Value::Array(_)) => Ok(value),
        _ => {
            let text = "Update argument must be either an object or an array";
            Err(CommandError::new(code::FAILED_TO_PARSE, text))
        }
    }
}

/// Refuses a `sort` together with `multi`.
pub(crate) fn check_multi(update: &Update<'_>) -> Result<()> {
    if update.multi && update.sort.is_some() {
        let text = "Cannot specify sort with multi=true";
        return Err(CommandError::new(code::FAILED_TO_PARSE, text));
    }
    Ok(())
}
