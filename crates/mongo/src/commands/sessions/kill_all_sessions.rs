//! `killAllSessions` and `killAllSessionsByPattern`: end the sessions of users, or those that match a pattern.
//!
//! A pattern names one session or a user, or selects all sessions.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::arguments::session_id;
use crate::request::fields::Field;
use diwan_access::UserName;
use diwan_value::{Array, DocBuilder};

pub(crate) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let own = Field::new(context.request.name, context.request.name, context.request.target());
    let mut all = true;
    let mut named = Vec::new();
    let mut users = Vec::new();
    for pattern in own.documents()? {
        let Ok(pattern) = pattern else {
            return Err(CommandError::new(code::TYPE_MISMATCH, "a pattern must be an object"));
        };
        all = false;
        match pattern.get_doc("lsid") {
            Some(lsid) => named.push(session_id(lsid)?),
            None => {
                all |= pattern.is_empty();
                let own = pattern.get_str("user").zip(pattern.get_str("db"));
                let listed = pattern.get_array("users").into_iter().flat_map(Array::iter);
                let listed = listed.filter_map(|user| {
                    let user = user.as_doc()?;
                    user.get_str("user").zip(user.get_str("db"))
                });
                users.extend(own.into_iter().chain(listed).map(|(user, db)| UserName::new(user, db)));
            }
        }
        if all {
            break;
        }
    }
    let known = &context.server.sessions;
    let sessions = if all {
        known.owned(|_| true)
    } else {
        named.extend(known.owned(|owner| owner.as_ref().is_some_and(|owner| users.contains(owner))));
        named
    };
    context.server.kill_sessions(&sessions);
    Ok(())
}
