//! `createUser`: adds a user.

use super::password::PasswordArguments;
use crate::commands::shared::names::{check_roles, roles, user_name};
use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::request::fields::missing;
use crate::sign_in::EXTERNAL;
use diwan_access::{ADMIN, Action, HttpNames, Resource, Restriction, User};
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let name = user_name(context)?;
    let database = context.request.arguments.database;
    let mut password = PasswordArguments::default();
    let (mut given, mut custom_data, mut restrictions) = (None, None, Vec::new());
    context.request.read(|field| {
        match field.key {
            "roles" => given = Some(roles(field, database)?),
            "customData" => custom_data = Some(field.document()?.to_owned()),
            "authenticationRestrictions" => restrictions = Restriction::parse_all(field.array()?)?,
            _ if password.read(field)? => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    context.require(Action::CreateUser, Resource::Database(database))?;
    let given = given.ok_or_else(|| missing("createUser", "roles"))?;
    check_roles(context, Action::GrantRole, &given)?;
    if !restrictions.is_empty() {
        context.require(Action::SetAuthenticationRestriction, Resource::Database(database))?;
    }
    if database == EXTERNAL {
        if password.has_password() {
            let text = "Cannot set the password for users defined on the '$external' database";
            return Err(CommandError::bad_value(text));
        }
    } else if !password.has_password() {
        let text = "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source db";
        return Err(CommandError::bad_value(text));
    }
    if database == "local" {
        return Err(CommandError::bad_value("Cannot create users in the local database"));
    }
    let user = User {
        http_name: String::new(),
        id: Some(diwan_store::random_uuid()),
        credentials: password.credentials(context, &name.user)?.unwrap_or_default(),
        free_roles: Vec::new(),
        roles: given,
        custom_data,
        restrictions,
        name,
    };
    let names = match context.may(Action::CreateUser, Resource::Database(ADMIN)) {
        true => HttpNames::Any,
        false => HttpNames::Qualified,
    };
    let details = context.change_details(&user.name.user);
    let commit = context.server.access.create_user(user, names)?;
    context.changed_register("createUser", details, commit);
    Ok(())
}
