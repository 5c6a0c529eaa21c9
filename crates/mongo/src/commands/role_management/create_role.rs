//! `createRole`: defines a role.

use crate::commands::shared::names::{check_privileges, check_roles, privileges, role_name, roles};
use crate::dispatch::Context;
use crate::error::Result;
use crate::request::fields::missing;
use diwan_access::{Action, Resource, Restriction, Role};
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let name = role_name(context)?;
    let database = context.request.arguments.database;
    let (mut inherited, mut own, mut restrictions) = (None, None, Vec::new());
    context.request.read(|field| {
        match field.key {
            "roles" => inherited = Some(roles(field, database)?),
            "privileges" => own = Some(privileges(field.array()?)?),
            "authenticationRestrictions" => restrictions = Restriction::parse_all(field.array()?)?,
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let own = own.ok_or_else(|| missing("createRole", "privileges"))?;
    let inherited = inherited.ok_or_else(|| missing("createRole", "roles"))?;
    context.require(Action::CreateRole, Resource::Database(database))?;
    check_roles(context, Action::GrantRole, &inherited)?;
    check_privileges(context, Action::GrantRole, &own)?;
    if !restrictions.is_empty() {
        context.require(Action::SetAuthenticationRestriction, Resource::Database(database))?;
    }
    let details = context.change_details(&name.role);
    let role = Role { name, roles: inherited, privileges: own, restrictions };
    let commit = context.server.access.create_role(role)?;
    context.changed_register("createRole", details, commit);
    Ok(())
}
