//! `distinct`: the different values at a path.

use super::find::hint;
use crate::dispatch::Context;
use crate::error::Result;
use crate::fields::missing;
use crate::request::Request;
use diwan_store::ops::{Distinct, Scope};
use diwan_value::DocBuilder;

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let namespace = context.request.namespace()?;
    let distinct = parse(context.request, context.scope())?;
    reply.append("values", context.server.store.distinct(&namespace, &distinct)?);
    Ok(())
}

pub(super) fn parse<'a>(request: &Request<'a>, scope: Scope<'a>) -> Result<Distinct<'a>> {
    let mut distinct = Distinct { scope, ..Distinct::default() };
    let mut key = None;
    request.read(|field| {
        match field.key {
            "key" => key = Some(field.string()?),
            "query" => distinct.filter = field.document()?,
            "hint" => distinct.hint = hint(field.value())?,
            "collation" => distinct.scope.collation = Some(field.document()?).filter(|doc| !doc.is_empty()),
            "collectionUUID" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    distinct.key = key.ok_or_else(|| missing("distinct", "key"))?;
    Ok(distinct)
}
