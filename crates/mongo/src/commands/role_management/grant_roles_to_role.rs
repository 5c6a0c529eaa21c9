//! `grantRolesToRole`: lets a role inherit others.

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
    let given = given.ok_or_else(|| missing("grantRolesToRole", "roles"))?;
    if given.is_empty() {
        return Err(CommandError::bad_value("grantRolesToRole requires a non-empty \"roles\" array"));
    }
    check_roles(context, Action::GrantRole, &given)?;
    let details = context.change_details(&name.role);
    let commit = context.server.access.update_role(&name, |role| {
        for inherited in given {
            if !role.roles.contains(&inherited) {
                role.roles.push(inherited);
            }
        }
        Ok(())
    })?;
    context.changed_register("grantRolesToRole", details, commit);
    Ok(())
}
