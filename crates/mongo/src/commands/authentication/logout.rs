//! `logout`: the connection of a user of this database is nobody's again.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_access::Caller;
use diwan_value::DocBuilder;
use serde_json::json;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    context.request.read(|field| Err(field.unknown()))?;
    *context.client.sign_in.lock() = None;
    let database = context.request.arguments.database;
    // As in MongoDB, only a logout from the user's own database has an effect.
    if context.caller.principal().is_some_and(|user| user.name.database == database) {
        context.server.access.audit.record(
            "signOut",
            context.caller,
            Some(context.client.peer.ip()),
            json!({ "interface": "mongodb" }),
        );
        *context.client.caller.lock() = Caller::Anonymous;
    }
    Ok(())
}
