//! `endSessions`: the client will not use these sessions again.

use super::kill_sessions::sessions;
use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::DocBuilder;

pub(super) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let ended = sessions(context.request)?;
    context.server.kill_sessions(&ended);
    Ok(())
}
