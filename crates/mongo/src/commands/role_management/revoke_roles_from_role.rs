//! `revokeRolesFromRole`: takes inherited roles from a role.

use crate::commands::shared::names::{check_roles, role_name, roles};
use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::request::fields::missing;
use diwan_access::Action;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let name = role_name(context)?;
    let mut given = None;
    context.request.read(|field| {
        match field.key {
            "roles" => given = Some(roles(field, context.request.arguments.database)?),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let given = given.ok_or_else(|| missing("revokeRolesFromRole", "roles"))?;
    if given.is_empty() {
        return Err(CommandError::bad_value("revokeRolesFromRole requires a non-empty \"roles\" array"));
    }
    check_roles(context, Action::RevokeRole, &given)?;
    let details = context.change_details(&name.role);
    let commit = context.server.access.update_role(&name, |role| {
        role.roles.retain(|inherited| !given.contains(inherited));
        Ok(())
    })?;
    context.changed_register("revokeRolesFromRole", details, commit);
    Ok(())
}
