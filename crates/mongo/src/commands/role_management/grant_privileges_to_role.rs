//! `grantPrivilegesToRole`: gives a role more privileges.

use crate::commands::shared::names::{check_privileges, privileges, role_name};
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
            "privileges" => given = Some(privileges(field.array()?)?),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let given = given.ok_or_else(|| missing("grantPrivilegesToRole", "privileges"))?;
    if given.is_empty() {
        return Err(CommandError::bad_value(
            "grantPrivilegesToRole requires a non-empty \"privileges\" array",
        ));
    }
    check_privileges(context, Action::GrantRole, &given)?;
    let details = context.change_details(&name.role);
    let commit = context.server.access.update_role(&name, |role| {
        diwan_access::merge(&mut role.privileges, given);
        Ok(())
    })?;
    context.changed_register("grantPrivilegesToRole", details, commit);
    Ok(())
}
