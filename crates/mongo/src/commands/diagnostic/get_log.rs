//! `getLog`: the newest lines of the server's log.

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::monitoring::log;
use diwan_value::{DocBuilder, Value, array};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let Some(name) = context.request.target().as_str() else {
        let text = "Argument to getLog must be of type String; found ";
        let found = context.request.target().tag().alias();
        return Err(CommandError::new(crate::error::code::TYPE_MISMATCH, format!("{text}{found}")));
    };
    match name {
        "*" => {
            reply.append("names", array!["global", "startupWarnings"]);
        }
        "global" => {
            let (total, lines) = log::recent();
            reply.append("totalLinesWritten", Value::integer(total as i64)).append("log", lines);
        }
        // MongoDB warns at startup of settings that Diwan refuses, such as an open address without users.
        "startupWarnings" => {
            reply.append("totalLinesWritten", 0).append("log", array![]);
        }
        other => {
            return Err(CommandError::new(
                crate::error::code::OPERATION_FAILED,
                format!("No log named '{other}'"),
            ));
        }
    }
    Ok(())
}
