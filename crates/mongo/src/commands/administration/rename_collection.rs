//! `renameCollection`: renames a collection, within its database or into another one.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::fields::missing;
use diwan_store::Namespace;
use diwan_value::{DocBuilder, Value};

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let Value::String(from) = request.target() else {
        let text = "'renameCollection' must be of type String";
        return Err(CommandError::new(code::TYPE_MISMATCH, text));
    };
    let (mut to, mut replace) = (None, false);
    request.read(|field| {
        match field.key {
            "to" => to = Some(field.string()?),
            "dropTarget" => {
                replace = match field.value() {
                    // The UUID of the target, from other servers.
                    Value::Binary { .. } => true,
                    _ => field.flag()?,
                }
            }
            "stayTemp" | "collectionUUID" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let to = to.ok_or_else(|| missing("renameCollection", "to"))?;
    let (from, to) = (Namespace::parse(from)?, Namespace::parse(to)?);
    if from.collection.starts_with("system.") || to.collection.starts_with("system.") {
        return Err(CommandError::new(code::ILLEGAL_OPERATION, "renaming system collections is not allowed"));
    }
    if let Some(uuid) = request.arguments.collection_uuid {
        context.expect_uuid(&from, uuid)?;
    }
    context.store.rename(&from, &to, replace)?;
    context.fence()
}
