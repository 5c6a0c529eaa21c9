//! `dropUser`: removes a user.

use crate::commands::shared::names::user_name;
use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let name = user_name(context)?;
    context.request.read(|field| Err(field.unknown()))?;
    let commit = context.server.access.drop_user(&name)?;
    context.changed_register("dropUser", context.change_details(&name.user), commit);
    Ok(())
}
