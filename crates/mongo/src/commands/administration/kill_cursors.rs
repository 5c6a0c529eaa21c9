//! `killCursors`: closes cursors.

use crate::dispatch::Context;
use crate::error::Result;
use crate::request::fields::{Field, missing};
use diwan_access::{Action, Resource};
use diwan_value::{ArrayBuilder, DocBuilder, Value, array};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    request.namespace()?;
    let mut ids = None;
    request.read(|field| {
        match field.key {
            "cursors" => ids = Some(field.array()?),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let ids = ids.ok_or_else(|| missing("killCursors", "cursors"))?;
    // All numbers are checked first, so that a command that is refused closes no cursor.
    let wrong = |(at, id)| Field::new("killCursors", &format!("cursors.{at}"), id).wrong("long");
    let ids = ids.iter().enumerate().map(|(at, id)| match id {
        Value::Int64(id) => Ok(id),
        other => Err(wrong((at, other))),
    });
    let ids = ids.collect::<Result<Vec<_>>>()?;
    let is_own = |id: &i64| context.server.cursors.owner(*id).is_none_or(|owner| context.caller.owns(&owner));
    if !ids.iter().all(is_own) {
        context.require(Action::KillAnyCursor, Resource::Cluster)?;
    }
    let (mut killed, mut missing) = (ArrayBuilder::new(), ArrayBuilder::new());
    for id in ids {
        // Numbers are unique in the server, so the collection that the command names does not matter.
        match context.server.cursors.kill(id) {
            true => killed.push(id),
            false => missing.push(id),
        };
    }
    reply.append("cursorsKilled", killed).append("cursorsNotFound", missing);
    reply.append("cursorsAlive", array![]).append("cursorsUnknown", array![]);
    Ok(())
}
