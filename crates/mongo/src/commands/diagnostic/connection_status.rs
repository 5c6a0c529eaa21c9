//! `connectionStatus`: the user of the connection, with roles and privileges.

use crate::commands::shared::describe::{privileges_array, roles_array};
use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::{DocBuilder, array, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let mut privileges = false;
    context.request.read(|field| {
        match field.key {
            "showPrivileges" => privileges = field.flag()?,
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    reply.begin_document("authInfo");
    match context.caller.principal() {
        Some(user) => {
            let name = doc! { "user": user.name.user.as_str(), "db": user.name.database.as_str() };
            reply.append("authenticatedUsers", array![name]);
            reply.append("authenticatedUserRoles", roles_array(&user.roles));
            if privileges {
                reply.append("authenticatedUserPrivileges", privileges_array(&user.privileges));
            }
        }
        None => {
            reply.append("authenticatedUsers", array![]).append("authenticatedUserRoles", array![]);
            if privileges {
                reply.append("authenticatedUserPrivileges", array![]);
            }
        }
    }
    reply.end();
    Ok(())
}
