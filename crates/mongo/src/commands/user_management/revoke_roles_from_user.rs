//! `revokeRolesFromUser`: takes roles from a user.

use crate::commands::shared::names::{check_roles, roles, user_name};
use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::request::fields::missing;
use diwan_access::Action;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let name = user_name(context)?;
    let mut given = None;
    context.request.read(|field| {
        match field.key {
            "roles" => given = Some(roles(field, context.request.arguments.database)?),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let given = given.ok_or_else(|| missing("revokeRolesFromUser", "roles"))?;
    if given.is_empty() {
        return Err(CommandError::bad_value(
            "revokeRolesFromUser command requires a non-empty \"roles\" array",
        ));
    }
    check_roles(context, Action::RevokeRole, &given)?;
    let details = context.change_details(&name.user);
    let commit = context.server.access.update_user(&name, |user| {
        let mut roles = std::mem::take(&mut user.roles);
        roles.retain(|role| !given.contains(role));
        user.set_roles(roles);
        Ok(())
    })?;
    context.changed_register("revokeRolesFromUser", details, commit);
    Ok(())
}
