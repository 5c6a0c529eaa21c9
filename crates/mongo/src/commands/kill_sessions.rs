//! `killSessions`: ends sessions and stops what runs in them.

use crate::arguments::{SessionId, session_id};
use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::fields::Field;
use crate::request::Request;
use diwan_value::DocBuilder;

pub(super) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let named = sessions(context.request)?;
    // As in MongoDB: no list at all means every session of the (only) user.
    let sessions = if named.is_empty() { context.server.sessions.list() } else { named };
    context.server.kill_sessions(&sessions);
    Ok(())
}

/// The sessions that a command lists as its own argument.
pub(super) fn sessions(request: &Request<'_>) -> Result<Vec<SessionId>> {
    let own = Field::new(request.name, request.name, request.target());
    if let Some(field) = request.fields().next() {
        return Err(field.unknown());
    }
    let documents = own.documents()?;
    let session = |document: std::result::Result<_, _>| match document {
        Ok(document) => session_id(document),
        Err(_) => Err(CommandError::new(code::TYPE_MISMATCH, "a session must be an object with an id")),
    };
    documents.map(session).collect()
}
