//! `refreshSessions`: the client still wants these sessions.

use super::kill_sessions::sessions;
use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;
use std::time::Instant;

pub(super) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    for session in sessions(context.request)? {
        context.server.sessions.touch(session, Instant::now());
    }
    Ok(())
}
