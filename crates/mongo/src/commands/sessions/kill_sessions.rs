//! `killSessions`: ends sessions, kills their cursors and interrupts their commands.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::Request;
use crate::request::arguments::{SessionId, session_id};
use crate::request::fields::Field;
use diwan_access::{Action, Resource};
use diwan_value::DocBuilder;

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let named = named_sessions(context.request)?;
    let all = &context.server.sessions;
    if !named.iter().all(|session| all.is_own(session, context.caller)) {
        context.require(Action::KillAnySession, Resource::Cluster)?;
    }
    // As in MongoDB, an empty list selects all sessions of the user.
    let sessions = if named.is_empty() { all.owned(|owner| context.caller.owns(owner)) } else { named };
    context.server.kill_sessions(&sessions);
    Ok(())
}

/// The sessions in the array of the command's first field.
pub(crate) fn named_sessions(request: &Request<'_>) -> Result<Vec<SessionId>> {
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
