//! `setDefaultRWConcern`: changes the default read and write concern.

use crate::commands::administration::get_default_rw_concern::{append_defaults, check_topology};
use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    check_topology(context)?;
    let (mut read, mut write) = (None, None);
    context.request.read(|field| {
        match field.key {
            "defaultReadConcern" => read = Some(field.document()?),
            "defaultWriteConcern" => write = Some(field.document()?),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let server = context.server;
    if let Some(commit) = server.concerns.set(&server.store, read, write, server.store.clock().now())? {
        context.committed(commit);
    }
    append_defaults(server, reply);
    Ok(())
}
