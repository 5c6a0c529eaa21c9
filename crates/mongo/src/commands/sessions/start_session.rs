//! `startSession`: starts a session with an identifier that the server chooses.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::server::sessions::{self, new_id};
use diwan_value::{DocBuilder, Value, doc};
use std::time::Instant;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let id =
        new_id().ok_or_else(|| CommandError::new(code::INTERNAL_ERROR, "the system has no random bytes"))?;
    // A new identifier is nobody else's.
    let _ = context.server.sessions.touch(id, context.caller, Instant::now());
    reply.append("id", doc! { "id": Value::Binary { subtype: 4, bytes: &id } });
    reply.append("timeoutMinutes", (sessions::TIMEOUT.as_secs() / 60) as i32);
    Ok(())
}
