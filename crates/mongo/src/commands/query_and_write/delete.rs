//! `delete`: deletes the first document, or all documents, that match each statement.

use crate::commands::shared::write::{Retry, append_errors, is_fatal, read_batch, writable_namespace};
use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::monitoring::metrics::OperationKind;
use crate::request::fields::{Field, missing};
use diwan_store::Namespace;
use diwan_store::ops::{Delete, Scope};
use diwan_value::{Doc, DocBuilder, Value};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = writable_namespace(request)?;
    let (mut statements, mut ordered, mut variables, mut first) = (None, true, None, None);
    request.read(|field| {
        match field.key {
            "deletes" => statements = Some(read_batch(field)?),
            "ordered" => ordered = field.flag()?,
            "let" => variables = Some(field.document()?),
            "stmtId" => first = Some(field.integer()?),
            "bypassDocumentValidation" | "collectionUUID" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let statements = statements.ok_or_else(|| missing("delete", "deletes"))?;
    let scope = Scope { variables, ..context.scope() };
    let deletes = statements.iter().map(|doc| parse(*doc, &scope)).collect::<Result<Vec<_>>>()?;
    // The dispatcher counts one more.
    context.server.metrics.count(OperationKind::Delete, deletes.len() as u64 - 1);
    let retry = Retry::begin(context, first)?;
    let (mut deleted, mut errors) = (0, Vec::new());
    for (at, delete) in deletes.iter().enumerate() {
        let outcome = run_statement(context, &namespace, delete, at, &retry);
        match outcome {
            Ok(count) => deleted += count,
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
    reply.append("n", i32::try_from(deleted).unwrap_or(i32::MAX));
    append_errors(context, &errors, reply);
    Ok(())
}

/// Runs one statement unless an earlier attempt has done it, and records it for the profiler. Returns the number of
/// deleted documents.
pub(crate) fn run_statement(
    context: &mut Context<'_>,
    namespace: &Namespace,
    delete: &Delete<'_>,
    at: usize,
    retry: &Retry<'_>,
) -> Result<u64> {
    let begun = context.begin_statement();
    let outcome = apply_once(context, namespace, delete, at, retry);
    let fields = [
        ("q", Some(Value::Document(delete.filter))),
        ("limit", Some(Value::Int32(i32::from(!delete.multi)))),
        ("collation", delete.scope.collation.map(Value::Document)),
    ];
    let counts = outcome.as_ref().map(|deleted| [("ndeleted", *deleted)]);
    context.end_statement(begun, "remove", namespace, &fields, counts);
    outcome
}

/// Runs one statement unless an earlier attempt has done it.
fn apply_once(
    context: &mut Context<'_>,
    namespace: &Namespace,
    delete: &Delete<'_>,
    at: usize,
    retry: &Retry<'_>,
) -> Result<u64> {
    if delete.multi {
        retry.refuse_multi()?;
    }
    if let Some(result) = retry.earlier_result(at) {
        return Ok(result.get("n").and_then(Value::as_i64_exact).unwrap_or(0).unsigned_abs());
    }
    let delete = Delete { retry: retry.record(at, None), ..delete.clone() };
    let outcome = context.store.delete(namespace, &delete)?;
    if let Some(commit) = outcome.commit {
        context.committed(commit);
    }
    Ok(outcome.count)
}

/// Parses one statement.
pub(crate) fn parse<'a>(statement: Doc<'a>, scope: &Scope<'a>) -> Result<Delete<'a>> {
    let mut delete = Delete { scope: scope.clone(), ..Delete::default() };
    let (mut filter, mut limit) = (None, None);
    Field::read_document("delete.deletes", statement, |field| {
        match field.key {
            "q" => filter = Some(field.document()?),
            "limit" => limit = Some(field.integer()?),
            "hint" => delete.hint = field.hint()?,
            "collation" => delete.scope.collation = field.collation()?,
            "sampleId" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    delete.filter = filter.ok_or_else(|| missing("delete.deletes", "q"))?;
    delete.multi = match limit.ok_or_else(|| missing("delete.deletes", "limit"))? {
        0 => true,
        1 => false,
        other => {
            let text = format!("The limit field in delete objects must be 0 or 1. Got {other}");
            return Err(CommandError::new(code::FAILED_TO_PARSE, text));
        }
    };
    Ok(delete)
}
