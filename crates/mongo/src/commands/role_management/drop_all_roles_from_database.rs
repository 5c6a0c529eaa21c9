//! `dropAllRolesFromDatabase`: removes all roles that users have defined in a database.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    context.request.read(|field| Err(field.unknown()))?;
    let (count, commit) = context.server.access.drop_roles_of(context.request.arguments.database)?;
    reply.append("n", i32::try_from(count).unwrap_or(i32::MAX));
    context.changed_register("dropAllRolesFromDatabase", context.change_details(""), commit);
    Ok(())
}
