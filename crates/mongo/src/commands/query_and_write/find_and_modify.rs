//! `findAndModify`: updates or deletes one document, and returns it.

use crate::commands::query_and_write::update::update_argument;
use crate::commands::shared::write::{Retry, writable_namespace};
use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::Request;
use diwan_store::ops::{Find, FindAndModify, Modified, Modify, Scope, Verbosity};
use diwan_store::plan::Hint;
use diwan_store::{Entry, Namespace};
use diwan_value::{Doc, DocBuilder};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = writable_namespace(request)?;
    let (modify, first) = parse(request, context.scope())?;
    let retry = Retry::begin(context, first)?;
    // The command is one statement, whose whole result is stored for a retry.
    let outcome = match retry.earlier_result(0) {
        Some(result) => Modified::from_doc(result),
        None => {
            let modify = FindAndModify { retry: retry.record(0, None), ..modify };
            context.store.find_and_modify(&namespace, &modify).map_err(|error| {
                let error = CommandError::from(error);
                match is_executor_error(context, &namespace, &modify) {
                    true => error.in_context("Plan executor error during findAndModify").having_begun(),
                    false => error,
                }
            })?
        }
    };
    if let Some(commit) = outcome.commit {
        context.committed(commit);
    }
    // The profiler's counters tell deletions, upserts and updates apart.
    let name = match outcome.updated_existing {
        None => "ndeleted",
        Some(_) if outcome.upserted.is_some() => "nUpserted",
        Some(_) => "nMatched",
    };
    context.count(name, outcome.count);
    reply.begin_document("lastErrorObject").append("n", outcome.count as i32);
    if let Some(existing) = outcome.updated_existing {
        reply.append("updatedExisting", existing);
    }
    if let Some(id) = &outcome.upserted {
        reply.append("upserted", id);
    }
    reply.end().append("value", outcome.value);
    Ok(())
}

/// Whether a command that failed can be parsed and planned. Then it failed at a document, which the error must say.
fn is_executor_error(context: &Context<'_>, namespace: &Namespace, modify: &FindAndModify<'_>) -> bool {
    let find = Find {
        filter: modify.filter,
        sort: modify.sort,
        hint: modify.hint.clone(),
        scope: modify.scope.clone(),
        ..Find::default()
    };
    let store = context.store;
    matches!(store.entry(namespace), Some(Entry::Collection(_)))
        && modify.check().is_ok()
        && store.explain_find(namespace, &find, None, Verbosity::QueryPlanner).is_ok()
}

/// Parses the arguments. Also returns the statement number, if the client sent one.
pub(crate) fn parse<'a>(request: &Request<'a>, scope: Scope<'a>) -> Result<(FindAndModify<'a>, Option<i64>)> {
    let mut parsed = FindAndModify {
        filter: Doc::EMPTY,
        sort: None,
        projection: None,
        modify: Modify::Remove,
        array_filters: None,
        hint: Hint::None,
        scope,
        bypass_validation: false,
        retry: None,
    };
    let (mut remove, mut update, mut upsert, mut return_new, mut first) = (false, None, false, false, None);
    request.read(|field| {
        match field.key {
            "query" => parsed.filter = field.document()?,
            "sort" => parsed.sort = Some(field.document()?),
            "fields" => parsed.projection = Some(field.document()?),
            "remove" => remove = field.flag()?,
            "update" => update = Some(update_argument(field)?),
            "upsert" => upsert = field.flag()?,
            "new" => return_new = field.flag()?,
            "arrayFilters" => parsed.array_filters = Some(field.array()?),
            "hint" => parsed.hint = field.hint()?,
            "collation" => parsed.scope.collation = field.collation()?,
            "let" => parsed.scope.variables = Some(field.document()?),
            "bypassDocumentValidation" => parsed.bypass_validation = field.flag()?,
            "stmtId" => first = Some(field.integer()?),
            "collectionUUID" | "sampleId" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let refuse = |text: &str| Err(CommandError::new(code::FAILED_TO_PARSE, text));
    parsed.modify = match (remove, update) {
        (true, Some(_)) => return refuse("Cannot specify both an update and remove=true"),
        (true, None) if upsert => return refuse("Cannot specify both upsert=true and remove=true"),
        (true, None) if return_new => {
            return refuse(
                "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document",
            );
        }
        (true, None) => Modify::Remove,
        (false, Some(update)) => Modify::Update { update, upsert, return_new },
        (false, None) => return refuse("Either an update or remove=true must be specified"),
    };
    Ok((parsed, first))
}
