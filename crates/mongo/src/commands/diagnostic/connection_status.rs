//! `connectionStatus`: the authenticated users of the connection. There are none.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::{DocBuilder, array};

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
    reply.append("authenticatedUsers", array![]).append("authenticatedUserRoles", array![]);
    if privileges {
        reply.append("authenticatedUserPrivileges", array![]);
    }
    reply.end();
    Ok(())
}
