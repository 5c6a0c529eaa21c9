//! `fsync`: everything that was written goes to its place on disk.

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use diwan_value::DocBuilder;

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    for field in context.request.fields() {
        match field.key {
            "lock" if field.flag()? => return Err(CommandError::not_implemented("fsync with lock: true")),
            "lock" | "async" | "fsyncLockAcquisitionTimeoutMillis" => {}
            _ => return Err(field.unknown()),
        }
    }
    context.server.engine.settle()?;
    reply.append("numFiles", 1);
    Ok(())
}
