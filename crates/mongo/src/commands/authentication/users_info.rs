//! `usersInfo`: an empty list, because there are no users.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::{DocBuilder, array};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    context.request.read(|field| {
        match field.key {
            "showAuthenticationRestrictions"
            | "showCredentials"
            | "showCustomData"
            | "showPrivileges"
            | "filter" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    reply.append("users", array![]);
    Ok(())
}
