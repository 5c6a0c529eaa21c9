//! `rolesInfo`: describes roles, built in or defined: one, several, or those of a database.

use crate::commands::shared::describe::{inherited_restrictions, privileges_array, roles_array};
use crate::commands::shared::names;
use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use diwan_access::{Action, Resource, Restriction, RoleName, Roles, builtin};
use diwan_value::{Array, ArrayBuilder, DocBuf, DocBuilder, Value};

/// What a description holds beside names and inherited roles.
#[derive(Default)]
struct Shown {
    builtin: bool,
    privileges: bool,
    restrictions: bool,
    as_user: bool,
}

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let mut shown = Shown::default();
    context.request.read(|field| {
        match field.key {
            "showBuiltinRoles" => shown.builtin = field.flag()?,
            "showPrivileges" if field.value().as_str() == Some("asUserFragment") => shown.as_user = true,
            "showPrivileges" => shown.privileges = field.flag()?,
            "showAuthenticationRestrictions" => shown.restrictions = field.flag()?,
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let database = context.request.arguments.database;
    let known = context.server.access.roles()?;
    let wanted: Vec<RoleName> = match context.request.target() {
        Value::Array(list) => list.iter().map(|value| names::role(value, database)).collect::<Result<_>>()?,
        value @ (Value::String(_) | Value::Document(_)) => vec![names::role(value, database)?],
        value if !value.is_number() => {
            return Err(CommandError::bad_value("User and role names must be either strings or objects"));
        }
        _ => {
            context.require(Action::ViewRole, Resource::Database(database))?;
            let own = known.of_database(database).map(|role| role.name.clone());
            let built_in = builtin::names(database).into_iter().map(|role| RoleName::new(role, database));
            own.chain(built_in.filter(|_| shown.builtin)).collect()
        }
    };
    for role in &wanted {
        // A user may always ask for the roles that he has.
        let is_own =
            context.caller.principal().is_some_and(|caller| known.closure(&caller.roles).contains(role));
        if !is_own {
            context.require(Action::ViewRole, Resource::Database(&role.database))?;
        }
    }
    let wanted: Vec<RoleName> = wanted.into_iter().filter(|role| known.exists(role)).collect();
    if shown.as_user {
        reply.begin_document("userFragment");
        reply.append("roles", roles_array(&wanted));
        reply.append("inheritedRoles", roles_array(&known.closure(&wanted)));
        reply.append("inheritedPrivileges", privileges_array(&known.privileges(&wanted)));
        reply.append("inheritedAuthenticationRestrictions", inherited_restrictions(&known, &wanted)).end();
        return Ok(());
    }
    let mut list = ArrayBuilder::new();
    for role in &wanted {
        list.push(describe(&known, role, &shown));
    }
    let bytes = list.finish();
    reply.append("roles", Value::Array(Array::trusted(&bytes)));
    Ok(())
}

fn describe(known: &Roles, name: &RoleName, shown: &Shown) -> DocBuf {
    let defined = known.get(name);
    let inherits = defined.map(|role| role.roles.as_slice()).unwrap_or_default();
    let mut doc = DocBuilder::new();
    if defined.is_some() {
        doc.append("_id", format!("{}.{}", name.database, name.role));
    }
    doc.append("role", name.role.as_str()).append("db", name.database.as_str());
    doc.append("isBuiltin", defined.is_none()).append("roles", roles_array(inherits));
    doc.append("inheritedRoles", roles_array(&known.closure(inherits)));
    if shown.privileges {
        let own = match defined {
            Some(role) => role.privileges.clone(),
            None => builtin::privileges(name).unwrap_or_default(),
        };
        doc.append("privileges", privileges_array(&own));
        let all = known.privileges(std::slice::from_ref(name));
        doc.append("inheritedPrivileges", privileges_array(&all));
    }
    if shown.restrictions {
        let own = defined.map(|role| role.restrictions.as_slice()).unwrap_or_default();
        let bytes = Restriction::to_array(own).finish();
        doc.append("authenticationRestrictions", Value::Array(Array::trusted(&bytes)));
        let inherited = inherited_restrictions(known, std::slice::from_ref(name));
        doc.append("inheritedAuthenticationRestrictions", inherited);
    }
    doc.finish()
}
