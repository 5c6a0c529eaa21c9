//! `rolesInfo`: the built-in roles, by name or all of them.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::{ArrayBuilder, Doc, DocBuilder, Value, array, doc};

/// The built-in roles of every database.
const ANY_DATABASE: &[&str] = &["dbAdmin", "dbOwner", "enableSharding", "read", "readWrite", "userAdmin"];
/// The built-in roles of `admin` alone.
const ADMIN: &[&str] = &[
    "backup",
    "clusterAdmin",
    "clusterManager",
    "clusterMonitor",
    "dbAdminAnyDatabase",
    "hostManager",
    "readAnyDatabase",
    "readWriteAnyDatabase",
    "restore",
    "root",
    "userAdminAnyDatabase",
];

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let mut all = false;
    context.request.read(|field| {
        match field.key {
            "showBuiltinRoles" => all = field.flag()?,
            "showPrivileges" | "showAuthenticationRestrictions" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let database = context.request.arguments.database;
    let mut roles = ArrayBuilder::new();
    let mut add = |name: &str, database: &str| {
        if ANY_DATABASE.contains(&name) || (database == "admin" && ADMIN.contains(&name)) {
            roles.push(doc! {
                "role": name, "db": database, "isBuiltin": true, "roles": [], "inheritedRoles": []
            });
        }
    };
    let mut named = |value: Value<'_>| match value {
        Value::String(name) => add(name, database),
        Value::Document(role) => {
            let (name, database) = role_and_database(role, database);
            add(name, database);
        }
        _ => {}
    };
    match context.request.target() {
        Value::Array(names) => names.iter().for_each(named),
        value @ (Value::String(_) | Value::Document(_)) => named(value),
        _ if all => {
            let admin = if database == "admin" { ADMIN } else { &[] };
            ANY_DATABASE.iter().chain(admin).for_each(|name| named(Value::String(name)));
        }
        _ => {}
    }
    if roles.is_empty() {
        reply.append("roles", array![]);
    } else {
        reply.append("roles", roles);
    }
    Ok(())
}

/// The name and the database of a role that the client names by a document.
fn role_and_database<'a>(role: Doc<'a>, default: &'a str) -> (&'a str, &'a str) {
    (role.get_str("role").unwrap_or_default(), role.get_str("db").unwrap_or(default))
}
