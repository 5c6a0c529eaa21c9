//! `updateRole`: replaces the privileges, inherited roles and restrictions of a role.

use crate::commands::shared::names::{check_privileges, check_roles, privileges, role_name, roles};
use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use diwan_access::{Action, Resource, Restriction};
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let name = role_name(context)?;
    let database = context.request.arguments.database;
    let (mut inherited, mut own, mut restrictions) = (None, None, None);
    context.request.read(|field| {
        match field.key {
            "roles" => inherited = Some(roles(field, database)?),
            "privileges" => own = Some(privileges(field.array()?)?),
            "authenticationRestrictions" => restrictions = Some(Restriction::parse_all(field.array()?)?),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    if inherited.is_none() && own.is_none() && restrictions.is_none() {
        let text = "Must specify at least one field to update in updateRole";
        return Err(CommandError::bad_value(text));
    }
    // To replace is to take what was there and to give what is new.
    context.require(Action::RevokeRole, Resource::Database(database))?;
    check_roles(context, Action::GrantRole, inherited.as_deref().unwrap_or_default())?;
    check_privileges(context, Action::GrantRole, own.as_deref().unwrap_or_default())?;
    if restrictions.is_some() {
        context.require(Action::SetAuthenticationRestriction, Resource::Database(database))?;
    }
    let details = context.change_details(&name.role);
    let commit = context.server.access.update_role(&name, |role| {
        role.roles = inherited.unwrap_or(std::mem::take(&mut role.roles));
        role.privileges = own.unwrap_or(std::mem::take(&mut role.privileges));
        role.restrictions = restrictions.unwrap_or(std::mem::take(&mut role.restrictions));
        Ok(())
    })?;
    context.changed_register("updateRole", details, commit);
    Ok(())
}
