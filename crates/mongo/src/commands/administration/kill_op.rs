//! `killOp`: interrupts a running command.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::fields::{int64, missing};
use diwan_access::{Action, Resource};
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let mut operation = None;
    context.request.read(|field| {
        match field.key {
            "op" => operation = Some(field.value()),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let operation = operation.ok_or_else(|| missing("killOp", "op"))?;
    let Some(id) = int64(operation).and_then(|id| i32::try_from(id).ok()) else {
        return Err(CommandError::new(code::TYPE_MISMATCH, "Expected field \"op\" to have numeric type"));
    };
    let owner = context.server.operations.owner(id);
    if !owner.is_some_and(|owner| context.caller.owns(&owner)) {
        context.require(Action::KillOp, Resource::Cluster)?;
    }
    context.server.operations.kill(id);
    reply.append("info", "attempting to kill op");
    Ok(())
}
