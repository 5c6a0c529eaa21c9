//! `getParameter`: settings by their MongoDB names.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::fields::Field;
use crate::parameters;
use diwan_value::{DocBuilder, Value, doc};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let (mut all, mut details) = (false, false);
    match context.request.target() {
        Value::String("*") => all = true,
        Value::Document(options) => {
            Field::read_document("getParameter", options, |field| {
                match field.key {
                    "allParameters" => all = field.flag()?,
                    "showDetails" => details = field.flag()?,
                    "setAt" => {}
                    _ => return Err(field.unknown()),
                }
                Ok(())
            })?;
        }
        _ => {}
    }
    let wanted: Vec<&str> = context.request.fields().map(|field| field.key).collect();
    let mut found = false;
    for parameter in parameters::TABLE {
        if !all && !wanted.contains(&parameter.name) {
            continue;
        }
        found = true;
        let value = parameters::get(context.server, parameter);
        if details {
            let settable = parameter.set.is_some();
            let shown = doc! { "value": value, "settableAtRuntime": settable, "settableAtStartup": false };
            reply.append(parameter.name, shown);
        } else {
            reply.append(parameter.name, value);
        }
    }
    if found { Ok(()) } else { Err(CommandError::new(code::INVALID_OPTIONS, "no option found to get")) }
}
