//! `getDefaultRWConcern`: the concerns of commands that state none.

use crate::clock::unix_millis;
use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::options::Topology;
use crate::server::Server;
use diwan_value::{Doc, DocBuilder, Value, doc};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    check_topology(context)?;
    let mut in_memory = false;
    context.request.read(|field| {
        match field.key {
            "inMemory" => in_memory = field.flag()?,
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    if !in_memory {
        context.server.concerns.refresh(&context.server.store)?;
    }
    show(context.server, reply);
    if in_memory {
        reply.append("inMemory", true);
    }
    Ok(())
}

/// Refuses what only the members of a replica set have.
pub(super) fn check_topology(context: &Context<'_>) -> Result<()> {
    match context.server.options.topology {
        Topology::Standalone => Err(CommandError::new(
            51300,
            format!("'{}' is not supported on standalone nodes.", context.request.name),
        )),
        _ => Ok(()),
    }
}

/// Appends the defaults and where they are from.
pub(super) fn show(server: &Server, reply: &mut DocBuilder) {
    let defaults = server.concerns.get();
    let set = defaults.document.as_doc();
    let (read, write) = (set.get_doc("defaultReadConcern"), set.get_doc("defaultWriteConcern"));
    let source = |set: Option<Doc<'_>>| if set.is_some() { "global" } else { "implicit" };
    let (level, majority) = (doc! { "level": "local" }, doc! { "w": "majority", "wtimeout": 0 });
    reply.append("defaultReadConcern", read.unwrap_or(level.as_doc()));
    reply.append("defaultWriteConcern", write.unwrap_or(majority.as_doc()));
    for name in ["updateOpTime", "updateWallClockTime"] {
        if let Some(value) = set.get(name) {
            reply.append(name, value);
        }
    }
    reply.append("defaultWriteConcernSource", source(write));
    reply.append("defaultReadConcernSource", source(read));
    reply.append("localUpdateWallClockTime", Value::DateTime(unix_millis()));
}
