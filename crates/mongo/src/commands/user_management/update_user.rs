//! `updateUser`: changes a user's password, roles, data and restrictions.

use super::password::PasswordArguments;
use crate::commands::shared::names::{check_roles, roles, user_name};
use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use diwan_access::{Action, Credentials, Resource, Restriction, RoleName, User};
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let name = user_name(context)?;
    let database = context.request.arguments.database;
    let mut password = PasswordArguments::default();
    let (mut given, mut custom_data, mut restrictions) = (None, None, None);
    context.request.read(|field| {
        match field.key {
            "roles" => given = Some(roles(field, database)?),
            "customData" => custom_data = Some(field.document()?.to_owned()),
            "authenticationRestrictions" => restrictions = Some(Restriction::parse_all(field.array()?)?),
            _ if password.read(field)? => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let here = Resource::Database(database);
    let is_own = context.caller.principal().is_some_and(|principal| principal.name == name);
    let changes_password = password.has_password() || password.has_mechanisms();
    if changes_password && !(is_own && context.may(Action::ChangeOwnPassword, here)) {
        context.require(Action::ChangePassword, here)?;
    }
    if custom_data.is_some() && !(is_own && context.may(Action::ChangeOwnCustomData, here)) {
        context.require(Action::ChangeCustomData, here)?;
    }
    let access = &context.server.access;
    if let Some(given) = &given {
        check_roles(context, Action::GrantRole, given)?;
    }
    if restrictions.is_some() {
        context.require(Action::SetAuthenticationRestriction, here)?;
    }
    if !changes_password && given.is_none() && custom_data.is_none() && restrictions.is_none() {
        let text = "Must specify at least one field to update in updateUser";
        return Err(CommandError::bad_value(text));
    }
    let credentials = password.credentials(context, &name.user)?;
    let details = context.change_details(&name.user);
    let mut refused = None;
    let outcome = access.update_user(&name, |user| {
        change(context, user, &password, credentials, given).map_err(|error| {
            let text = error.message.clone();
            refused = Some(error);
            diwan_access::Error::bad_value(text)
        })?;
        user.custom_data = custom_data.or(user.custom_data.take());
        if let Some(restrictions) = restrictions {
            user.restrictions = restrictions;
        }
        Ok(())
    });
    if let Some(error) = refused {
        return Err(error);
    }
    context.changed_register("updateUser", details, outcome?);
    Ok(())
}

/// Changes the password and the roles.
fn change(
    context: &Context<'_>,
    user: &mut User,
    password: &PasswordArguments<'_>,
    credentials: Option<Credentials>,
    given: Option<Vec<RoleName>>,
) -> Result<()> {
    match credentials {
        Some(credentials) => user.credentials = credentials,
        None => password.restrict(&mut user.credentials)?,
    }
    let Some(given) = given else { return Ok(()) };
    // To replace the roles is to take the old ones and to give the new ones.
    for role in user.roles.iter().filter(|role| !given.contains(role)) {
        context.require(Action::RevokeRole, Resource::Database(&role.database))?;
    }
    user.set_roles(given);
    Ok(())
}
