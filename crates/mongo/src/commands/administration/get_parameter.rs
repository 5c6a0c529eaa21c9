//! `getParameter`: the values of server parameters.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::fields::Field;
use crate::server::parameters;
use diwan_value::{DocBuilder, Value, doc};

/// When a parameter can be set.
enum SetAt {
    Runtime,
    Startup,
}

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let (mut all, mut details, mut set_at) = (false, false, None);
    match context.request.target() {
        Value::String("*") => all = true,
        Value::Document(options) => {
            Field::read_document("getParameter", options, |field| {
                match field.key {
                    "allParameters" => all = field.flag()?,
                    "showDetails" => details = field.flag()?,
                    "setAt" => {
                        set_at = Some(match field.string()? {
                            "runtime" => SetAt::Runtime,
                            "startup" => SetAt::Startup,
                            other => {
                                return Err(CommandError::bad_value(format!(
                                    "Enumeration value '{other}' for field 'getParameter.setAt' is not a valid value."
                                )));
                            }
                        });
                    }
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
        let is_settable = match set_at {
            None => true,
            Some(SetAt::Runtime) => parameter.set.is_some(),
            // Diwan's command-line options are not MongoDB's startup parameters.
            Some(SetAt::Startup) => false,
        };
        if !is_settable {
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
