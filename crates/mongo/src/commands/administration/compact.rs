//! `compact`: frees the disk space of deleted documents. The engine compacts all collections together.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use diwan_value::{DocBuilder, Value};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let namespace = context.request.namespace()?;
    let mut dry_run = false;
    context.request.read(|field| {
        match field.key {
            "dryRun" => dry_run = field.flag()?,
            "force" | "freeSpaceTargetMB" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    if dry_run {
        return Err(CommandError::not_implemented("compact.dryRun"));
    }
    if context.store.collection(&namespace)?.is_none() {
        return Err(CommandError::new(code::NAMESPACE_NOT_FOUND, "collection does not exist"));
    }
    let engine = &context.server.engine;
    let before = engine.stats().disk_bytes;
    engine.settle()?;
    reply.append("bytesFreed", Value::integer(before.saturating_sub(engine.stats().disk_bytes) as i64));
    Ok(())
}
