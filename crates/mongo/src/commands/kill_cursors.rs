//! `killCursors`: cursors that the client will not read on.

use crate::dispatch::Context;
use crate::error::Result;
use crate::fields::{Field, missing};
use diwan_value::{ArrayBuilder, DocBuilder, Value, array};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
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
    // Nothing is closed by a command that is refused.
    let wrong = |(at, id)| Field::new("killCursors", &format!("cursors.{at}"), id).wrong("long");
    let ids = ids.iter().enumerate().map(|(at, id)| match id {
        Value::Int64(id) => Ok(id),
        other => Err(wrong((at, other))),
    });
    let (mut killed, mut missing) = (ArrayBuilder::new(), ArrayBuilder::new());
    for id in ids.collect::<Result<Vec<_>>>()? {
        // A cursor has its number for itself: the collection that the command names does not matter.
        match context.server.cursors.kill(id) {
            true => killed.push(id),
            false => missing.push(id),
        };
    }
    reply.append("cursorsKilled", killed).append("cursorsNotFound", missing);
    reply.append("cursorsAlive", array![]).append("cursorsUnknown", array![]);
    Ok(())
}
