//! `killAllSessions` and `killAllSessionsByPattern`: end the sessions of users, or those that match a pattern.
//!
//! All sessions are unauthenticated. So a pattern names one session, or selects all sessions, or names a user, who has no
//! sessions.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::arguments::session_id;
use crate::request::fields::Field;
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let own = Field::new(context.request.name, context.request.name, context.request.target());
    let mut all = true;
    let mut named = Vec::new();
    for pattern in own.documents()? {
        let Ok(pattern) = pattern else {
            return Err(CommandError::new(code::TYPE_MISMATCH, "a pattern must be an object"));
        };
        all = false;
        match pattern.get_doc("lsid") {
            Some(lsid) => named.push(session_id(lsid)?),
            None => all |= pattern.is_empty(),
        }
        if all {
            break;
        }
    }
    let sessions = if all { context.server.sessions.list() } else { named };
    context.server.kill_sessions(&sessions);
    Ok(())
}
