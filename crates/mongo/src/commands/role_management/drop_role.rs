//! `dropRole`: removes a role, from the users and roles that have it, too.

use crate::commands::shared::names::role_name;
use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let name = role_name(context)?;
    context.request.read(|field| Err(field.unknown()))?;
    let commit = context.server.access.drop_role(&name)?;
    context.changed_register("dropRole", context.change_details(&name.role), commit);
    Ok(())
}
