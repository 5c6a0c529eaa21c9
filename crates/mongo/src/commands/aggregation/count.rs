//! `count`: the number of documents that match a filter.

use crate::dispatch::Context;
use crate::error::Result;
use crate::request::Request;
use diwan_store::ops::{Count, Scope};
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let namespace = context.request.namespace()?;
    let count = parse(context.request, context.scope())?;
    let total = context.store.count(&namespace, &count)?;
    match i32::try_from(total) {
        Ok(total) => reply.append("n", total),
        Err(_) => reply.append("n", total as i64),
    };
    Ok(())
}

/// Parses the arguments, of the command itself or of an explained one.
pub(crate) fn parse<'a>(request: &Request<'a>, scope: Scope<'a>) -> Result<Count<'a>> {
    let mut count = Count { scope, ..Count::default() };
    request.read(|field| {
        match field.key {
            "query" => count.filter = field.document()?,
            // A negative limit counts like the positive one.
            "limit" => count.limit = Some(field.integer()?.unsigned_abs()).filter(|limit| *limit > 0),
            "skip" => count.skip = field.natural()?,
            "hint" => count.hint = field.hint()?,
            "collation" => count.scope.collation = field.collation()?,
            "fields" | "collectionUUID" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    Ok(count)
}
