//! `distinct`: the distinct values of a field.

use crate::commands::shared::cursor_reply::executor_error;
use crate::dispatch::Context;
use crate::error::Result;
use crate::request::Request;
use crate::request::fields::missing;
use diwan_store::ops::{Distinct, Find, Scope, Verbosity};
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let namespace = context.request.namespace()?;
    let distinct = parse(context.request, context.scope())?;
    let store = context.store;
    let values = store.distinct(&namespace, &distinct).map_err(|error| {
        let find = Find {
            filter: distinct.filter,
            hint: distinct.hint.clone(),
            scope: distinct.scope.clone(),
            ..Find::default()
        };
        // If the command can be parsed and planned, it failed at a document. MongoDB marks those errors.
        let planned = store.explain_find(&namespace, &find, None, Verbosity::QueryPlanner);
        match planned {
            Ok(_) => {
                let own = "Executor error during distinct command";
                executor_error(context, &namespace, own, error.into())
            }
            Err(_) => error.into(),
        }
    })?;
    reply.append("values", values);
    if let Some(time) = context.source.snapshot_time() {
        reply.append("atClusterTime", time);
    }
    Ok(())
}

/// Parses the arguments, of the command itself or of an explained one.
pub(crate) fn parse<'a>(request: &Request<'a>, scope: Scope<'a>) -> Result<Distinct<'a>> {
    let mut distinct = Distinct { scope, ..Distinct::default() };
    let mut key = None;
    request.read(|field| {
        match field.key {
            "key" => key = Some(field.string()?),
            "query" => distinct.filter = field.document()?,
            "hint" => distinct.hint = field.hint()?,
            "collation" => distinct.scope.collation = field.collation()?,
            "collectionUUID" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    distinct.key = key.ok_or_else(|| missing("distinct", "key"))?;
    Ok(distinct)
}
