//! `configureFailPoint`: makes commands fail on purpose, on a server with `--test-commands`.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::fields::missing;
use diwan_value::{Doc, DocBuilder};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let Some(points) = &context.server.fail_points else {
        return Err(CommandError::new(code::COMMAND_NOT_FOUND, "no such command: 'configureFailPoint'"));
    };
    let name = context.request.target().as_str().unwrap_or_default();
    let (mut mode, mut data) = (None, Doc::EMPTY);
    context.request.read(|field| {
        match field.key {
            "mode" => mode = Some(field.value()),
            "data" => data = field.document()?,
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let mode = mode.ok_or_else(|| missing("configureFailPoint", "mode"))?;
    reply.append("count", points.set(name, mode, data)?);
    Ok(())
}
