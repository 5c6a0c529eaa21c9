//! `connectionStatus`: who is authenticated on this connection: nobody.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::{DocBuilder, array};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let mut privileges = false;
    for field in context.request.fields() {
        match field.key {
            "showPrivileges" => privileges = field.flag()?,
            _ => return Err(field.unknown()),
        }
    }
    reply.begin_document("authInfo");
    reply.append("authenticatedUsers", array![]).append("authenticatedUserRoles", array![]);
    if privileges {
        reply.append("authenticatedUserPrivileges", array![]);
    }
    reply.end();
    Ok(())
}
