//! `setParameter`: changes server parameters at runtime.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::server::parameters;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let mut done = false;
    for field in context.request.fields() {
        let parameter =
            parameters::TABLE.iter().find(|parameter| parameter.name == field.key).ok_or_else(|| {
                let text = format!(
                    "attempted to set unrecognized parameter [{}], use help:true to see options ",
                    field.key
                );
                CommandError::new(code::INVALID_OPTIONS, text)
            })?;
        let set = parameter.set.ok_or_else(|| {
            let text = format!("not allowed to change [{}] at runtime", parameter.name);
            CommandError::new(code::ILLEGAL_OPERATION, text)
        })?;
        let was = parameters::get(context.server, parameter);
        set(context.server, field)?;
        if !done {
            reply.append("was", was);
        }
        done = true;
    }
    if done {
        Ok(())
    } else {
        Err(CommandError::new(code::INVALID_OPTIONS, "no option found to set, use help:true to see options "))
    }
}
