//! `endSessions`: ends sessions that the client no longer uses.

use crate::commands::sessions::kill_sessions::named_sessions;
use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let mut ended = named_sessions(context.request)?;
    ended.retain(|session| context.server.sessions.is_own(session, context.caller));
    context.server.kill_sessions(&ended);
    Ok(())
}
