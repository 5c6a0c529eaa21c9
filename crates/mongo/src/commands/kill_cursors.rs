//! `killCursors`: cursors that the client will not read on.

use crate::cursors::Killed;
use crate::dispatch::Context;
use crate::error::Result;
use crate::fields::{Field, missing};
use diwan_value::{ArrayBuilder, DocBuilder, Value, array};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = request.namespace()?;
    let mut ids = None;
    request.read(|field| {
        match field.key {
            "cursors" => ids = Some(field.array()?),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let ids = ids.ok_or_else(|| missing("killCursors", "cursors"))?;
    let (mut killed, mut missing) = (ArrayBuilder::new(), ArrayBuilder::new());
    for id in ids.iter() {
        let Value::Int64(id) = id else {
            return Err(Field::new("killCursors", "cursors", id).wrong("long"));
        };
        match context.server.cursors.kill(id, &namespace.database, &namespace.collection) {
            Killed::Yes => killed.push(id),
            Killed::NotFound => missing.push(id),
        };
    }
    reply.append("cursorsKilled", killed).append("cursorsNotFound", missing);
    reply.append("cursorsAlive", array![]).append("cursorsUnknown", array![]);
    Ok(())
}
