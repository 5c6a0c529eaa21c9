//! `refreshSessions`: marks sessions as used.

use crate::commands::sessions::kill_sessions::named_sessions;
use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;
use std::time::Instant;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    for session in named_sessions(context.request)? {
        // Sessions of others are left alone, and so are those beyond the limit.
        let _ = context.server.sessions.touch(session, context.caller, Instant::now());
    }
    Ok(())
}
