//! `fsync`: flushes all writes from memory to tables on disk.

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    context.request.read(|field| {
        match field.key {
            "lock" if field.flag()? => return Err(CommandError::not_implemented("fsync with lock: true")),
            "lock" | "async" | "fsyncLockAcquisitionTimeoutMillis" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    context.server.engine.settle()?;
    reply.append("numFiles", 1);
    Ok(())
}
