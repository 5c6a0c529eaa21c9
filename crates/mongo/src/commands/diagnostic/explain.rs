//! `explain`: the plan of another command.

use crate::commands::aggregation::{aggregate as aggregation, count, distinct};
use crate::commands::query_and_write::{delete, find, find_and_modify, update};
use crate::commands::shared::write;
use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::monitoring::machine;
use crate::request::Request;
use crate::request::arguments::{GenericArguments, uuid};
use crate::request::fields::{Field, missing};
use crate::server::identity::VERSION;
use diwan_store::Namespace;
use diwan_store::ops::{Aggregate, Find, Modify, Scope, Verbosity};
use diwan_store::plan::Hint;
use diwan_value::{Doc, DocBuf, DocBuilder, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
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
    let level = parse_verbosity(verbosity)?;
    let arguments = GenericArguments { database: request.arguments.database, ..GenericArguments::default() };
    let name = body.iter().next().map(|element| element.key_str()).unwrap_or_default();
    // The explained command is parsed by the parsers of its own file.
    let inner = Request { name, body, sequences: &[], arguments };
    if let Some(field) = inner.fields().find(|field| field.key == "collectionUUID") {
        context.expect_uuid(&inner.namespace()?, uuid(field)?)?;
    }
    let store = context.store;
    let explain = |find: &Find<'_>, root: Option<&str>| -> Result<DocBuf> {
        Ok(store.explain_find(&inner.namespace()?, find, root, level)?)
    };
    // Every command but aggregate is explained as the find that selects its documents.
    let explained = match name {
        "find" => explain(&find::parse(&inner, context.scope_with_disk())?.find, None)?,
        "count" => {
            let count = count::parse(&inner, context.scope())?;
            let (skip, limit) = (count.skip, count.limit);
            let find = selection(count.filter, None, count.hint, count.scope);
            explain(&Find { skip, limit, ..find }, Some("COUNT"))?
        }
        "distinct" => {
            let distinct = distinct::parse(&inner, context.scope())?;
            explain(&selection(distinct.filter, None, distinct.hint, distinct.scope), None)?
        }
        "update" => {
            let statement = only_statement(&inner, "updates")?;
            let update = update::parse(statement, &scope_with_variables(context, &inner)?)?;
            explain(&selection(update.filter, update.sort, update.hint, update.scope), Some("UPDATE"))?
        }
        "delete" => {
            let statement = only_statement(&inner, "deletes")?;
            let delete = delete::parse(statement, &scope_with_variables(context, &inner)?)?;
            explain(&selection(delete.filter, None, delete.hint, delete.scope), Some("DELETE"))?
        }
        "findAndModify" | "findandmodify" => {
            let (modify, _) = find_and_modify::parse(&inner, context.scope())?;
            let root = if matches!(modify.modify, Modify::Remove) { "DELETE" } else { "UPDATE" };
            explain(&selection(modify.filter, modify.sort, modify.hint, modify.scope), Some(root))?
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

/// The reply to `aggregate` with `explain: true`.
pub(crate) fn aggregate(
    context: &Context<'_>,
    namespace: Option<&Namespace>,
    aggregate: &Aggregate<'_>,
    verbosity: &str,
    reply: &mut DocBuilder,
) -> Result<()> {
    let database = context.request.arguments.database;
    let explained =
        context.store.explain_aggregate(namespace, database, aggregate, parse_verbosity(verbosity)?)?;
    finish(context, context.request.body, &explained, reply);
    Ok(())
}

/// Appends the plan, the command and the server.
fn finish(context: &Context<'_>, command: Doc<'_>, explained: &DocBuf, reply: &mut DocBuilder) {
    reply.append_all(explained.as_doc()).begin_document("command").append_all(command);
    // A command inside `explain` has no `$db` of its own.
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

fn parse_verbosity(verbosity: &str) -> Result<Verbosity> {
    match verbosity {
        "queryPlanner" => Ok(Verbosity::QueryPlanner),
        "executionStats" => Ok(Verbosity::ExecutionStats),
        "allPlansExecution" => Ok(Verbosity::AllPlansExecution),
        other => Err(CommandError::bad_value(format!(
            "Enumeration value '{other}' for field 'explain.verbosity' is not a valid value."
        ))),
    }
}

/// The statement of an explained write, which must have exactly one.
fn only_statement<'a>(request: &Request<'a>, key: &str) -> Result<Doc<'a>> {
    let field = request.fields().find(|field| field.key == key).ok_or_else(|| missing(request.name, key))?;
    match write::read_batch(field)?.as_slice() {
        [only] => Ok(*only),
        _ => Err(CommandError::new(
            code::INVALID_LENGTH,
            format!("explained write batches must be of size 1, but {key} has more"),
        )),
    }
}

/// The find that an explained command uses to select its documents.
fn selection<'a>(filter: Doc<'a>, sort: Option<Doc<'a>>, hint: Hint, scope: Scope<'a>) -> Find<'a> {
    Find { filter, sort, hint, scope, ..Find::default() }
}

/// The scope of an explained update or delete, with its variables.
fn scope_with_variables<'a>(context: &Context<'_>, request: &Request<'a>) -> Result<Scope<'a>> {
    let variables = request.fields().find(|field| field.key == "let");
    let variables = variables.map(|field| field.document()).transpose()?;
    Ok(Scope { variables, ..context.scope() })
}
