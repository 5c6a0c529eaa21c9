//! `explain`: how another command would find its documents.

use super::{aggregate as aggregation, count, delete, distinct, find, find_and_modify, update, write};
use crate::arguments::{Arguments, uuid};
use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::fields::{Field, missing};
use crate::identity::VERSION;
use crate::machine;
use crate::request::Request;
use diwan_store::Namespace;
use diwan_store::ops::{Aggregate, Find, Modify, Scope, Verbosity};
use diwan_store::plan::Hint;
use diwan_value::{Doc, DocBuf, DocBuilder, doc};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let own = Field::new("explain", "explain", request.target());
    let body = own.document()?;
    let mut verbosity = "allPlansExecution";
    request.read(|field| {
        match field.key {
            "verbosity" => verbosity = field.string()?,
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let level = level(verbosity)?;
    let arguments = Arguments { database: request.arguments.database, ..Arguments::default() };
    let name = body.iter().next().map(|element| element.key_str()).unwrap_or_default();
    let inner = Request { name, body, sequences: &[], arguments };
    if let Some(field) = inner.fields().find(|field| field.key == "collectionUUID") {
        context.expect_uuid(&inner.namespace()?, uuid(field)?)?;
    }
    let store = &context.server.store;
    let explain = |find: &Find<'_>, root: Option<&str>| -> Result<DocBuf> {
        Ok(store.explain_find(&inner.namespace()?, find, root, level)?)
    };
    let explained = match name {
        "find" => explain(&find::parse(&inner, context.scope_with_disk())?.find, None)?,
        "count" => {
            let count = count::parse(&inner, context.scope())?;
            let (skip, limit) = (count.skip, count.limit);
            let find = found(count.filter, None, count.hint, count.scope);
            explain(&Find { skip, limit, ..find }, Some("COUNT"))?
        }
        "distinct" => {
            let distinct = distinct::parse(&inner, context.scope())?;
            explain(&found(distinct.filter, None, distinct.hint, distinct.scope), None)?
        }
        "update" => {
            let statement = only_statement(&inner, "updates")?;
            let update = update::parse(statement, &scope(context, &inner)?)?;
            explain(&found(update.filter, update.sort, update.hint, update.scope), Some("UPDATE"))?
        }
        "delete" => {
            let statement = only_statement(&inner, "deletes")?;
            let delete = delete::parse(statement, &scope(context, &inner)?)?;
            explain(&found(delete.filter, None, delete.hint, delete.scope), Some("DELETE"))?
        }
        "findAndModify" | "findandmodify" => {
            let (modify, _) = find_and_modify::parse(&inner, context.scope())?;
            let root = if matches!(modify.modify, Modify::Remove) { "DELETE" } else { "UPDATE" };
            explain(&found(modify.filter, modify.sort, modify.hint, modify.scope), Some(root))?
        }
        "aggregate" => {
            let namespace = aggregation::target(&inner)?;
            let aggregate = aggregation::parse(&inner, context.scope_with_disk())?.aggregate;
            if request.arguments.api_strict {
                aggregation::check_strict(aggregate.pipeline)?;
            }
            let database = inner.arguments.database;
            store.explain_aggregate(namespace.as_ref(), database, &aggregate, level)?
        }
        other => {
            let text = format!("Explain failed due to unknown command: {other}");
            return Err(CommandError::new(code::COMMAND_NOT_FOUND, text));
        }
    };
    finish(context, body, &explained, reply);
    Ok(())
}

/// What `aggregate` with `explain: true` answers.
pub(super) fn aggregate(
    context: &Context<'_>,
    namespace: Option<&Namespace>,
    aggregate: &Aggregate<'_>,
    verbosity: &str,
    reply: &mut DocBuilder,
) -> Result<()> {
    let database = context.request.arguments.database;
    let explained =
        context.server.store.explain_aggregate(namespace, database, aggregate, level(verbosity)?)?;
    finish(context, context.request.body, &explained, reply);
    Ok(())
}

/// Appends the plan, and what every explanation ends with.
fn finish(context: &Context<'_>, command: Doc<'_>, explained: &DocBuf, reply: &mut DocBuilder) {
    reply.append_all(explained.as_doc()).begin_document("command").append_all(command);
    // A command that is explained by another one leaves the database to it.
    if !command.contains_key("$db") {
        reply.append("$db", context.request.arguments.database);
    }
    reply.end();
    reply.append(
        "serverInfo",
        doc! {
            "host": machine::hostname(),
            "port": i32::from(context.client.local.port()),
            "version": VERSION,
            "gitVersion": env!("CARGO_PKG_VERSION")
        },
    );
}

fn level(verbosity: &str) -> Result<Verbosity> {
    match verbosity {
        "queryPlanner" => Ok(Verbosity::QueryPlanner),
        "executionStats" => Ok(Verbosity::ExecutionStats),
        "allPlansExecution" => Ok(Verbosity::AllPlansExecution),
        other => Err(CommandError::bad_value(format!(
            "Enumeration value '{other}' for field 'explain.verbosity' is not a valid value."
        ))),
    }
}

/// The one statement of a write that is to be explained.
fn only_statement<'a>(request: &Request<'a>, key: &str) -> Result<Doc<'a>> {
    let field = request.fields().find(|field| field.key == key).ok_or_else(|| missing(request.name, key))?;
    match write::batch(field)?.as_slice() {
        [only] => Ok(*only),
        _ => Err(CommandError::new(
            code::INVALID_LENGTH,
            format!("explained write batches must be of size 1, but {key} has more"),
        )),
    }
}

/// The find that another command begins with.
fn found<'a>(filter: Doc<'a>, sort: Option<Doc<'a>>, hint: Hint, scope: Scope<'a>) -> Find<'a> {
    Find { filter, sort, hint, scope, ..Find::default() }
}

fn scope<'a>(context: &Context<'_>, request: &Request<'a>) -> Result<Scope<'a>> {
    let variables = request.fields().find(|field| field.key == "let");
    let variables = variables.map(|field| field.document()).transpose()?;
    Ok(Scope { variables, ..context.scope() })
}
