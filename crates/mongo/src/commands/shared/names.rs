//! Names of users and roles in the arguments of commands, and the rights to give roles.

use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::request::fields::Field;
use diwan_access::{Action, Privilege, Resource, RoleName, UserName};
use diwan_value::{Array, Value};
use std::collections::BTreeSet;

/// The user that the command's first field names, in the database of the request.
pub(crate) fn user_name(context: &Context<'_>) -> Result<UserName> {
    Ok(UserName::new(name(context)?, context.request.arguments.database))
}

/// The role that the command's first field names, in the database of the request.
pub(crate) fn role_name(context: &Context<'_>) -> Result<RoleName> {
    Ok(RoleName::new(name(context)?, context.request.arguments.database))
}

fn name<'a>(context: &Context<'a>) -> Result<&'a str> {
    let request = context.request;
    Field::new(request.name, request.name, request.target()).string()
}

/// A list of roles without duplicates: each is a name, which is of this database, or `{role: …, db: …}`.
pub(crate) fn roles(field: Field<'_>, database: &str) -> Result<Vec<RoleName>> {
    let mut seen = BTreeSet::new();
    let mut roles = field.array()?.iter().map(|value| role(value, database)).collect::<Result<Vec<_>>>()?;
    roles.retain(|role| seen.insert(role.clone()));
    Ok(roles)
}

/// A role: a name, which is of this database, or `{role: …, db: …}`.
pub(crate) fn role(value: Value<'_>, database: &str) -> Result<RoleName> {
    let bad = || CommandError::bad_value("Role names must be either strings or objects");
    match value {
        Value::String(role) => Ok(RoleName::new(role, database)),
        Value::Document(doc) => {
            let role = doc.get_str("role").ok_or_else(bad)?;
            Ok(RoleName::new(role, doc.get_str("db").ok_or_else(bad)?))
        }
        _ => Err(bad()),
    }
}

/// A list of privileges.
pub(crate) fn privileges(list: Array<'_>) -> Result<Vec<Privilege>> {
    let parse = |value: Value<'_>| {
        let doc = value.as_doc().ok_or_else(|| CommandError::bad_value("privileges are documents"))?;
        Ok(Privilege::parse(doc)?)
    };
    let mut merged = Vec::new();
    diwan_access::merge(&mut merged, list.iter().map(parse).collect::<Result<Vec<_>>>()?);
    Ok(merged)
}

/// Refuses roles that the caller may not give or take (`action`), or that do not exist.
pub(crate) fn check_roles(context: &Context<'_>, action: Action, roles: &[RoleName]) -> Result<()> {
    for role in roles {
        context.require(action, Resource::Database(&role.database))?;
    }
    let known = context.server.access.roles()?;
    for role in roles {
        known.check(role)?;
    }
    Ok(())
}

/// Refuses privileges that the caller may not give or take: MongoDB asks for the action on the database of each, and on
/// `admin` for those of all databases or of the server.
pub(crate) fn check_privileges(
    context: &Context<'_>,
    action: Action,
    privileges: &[Privilege],
) -> Result<()> {
    for privilege in privileges {
        let database = match &privilege.pattern {
            diwan_access::Pattern::Names { database: Some(database), .. } => database.as_str(),
            _ => diwan_access::ADMIN,
        };
        context.require(action, Resource::Database(database))?;
    }
    Ok(())
}
