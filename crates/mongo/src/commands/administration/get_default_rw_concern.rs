//! `getDefaultRWConcern`: the default read and write concern.

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::server::Server;
use crate::server::clock::unix_millis;
use crate::server::options::Topology;
use diwan_value::{Doc, DocBuilder, Value, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
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
    append_defaults(context.server, reply);
    if in_memory {
        reply.append("inMemory", true);
    }
    Ok(())
}

/// Refuses the command on a standalone server, which has no default concerns.
pub(crate) fn check_topology(context: &Context<'_>) -> Result<()> {
    match context.server.options.topology {
        Topology::Standalone => Err(CommandError::new(
            51300,
            format!("'{}' is not supported on standalone nodes.", context.request.name),
        )),
        _ => Ok(()),
    }
}

/// Appends the defaults, and whether they were set or are built in.
pub(crate) fn append_defaults(server: &Server, reply: &mut DocBuilder) {
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
