//! Logical sessions. A session is a UUID, chosen by the client or by `startSession`. It ends after 30 minutes without use.
//!
//! A session holds no state. Cursors and running commands refer to their session by its identifier.

use crate::request::arguments::SessionId;
use crate::server::clock::unix_millis;
use diwan_access::{Caller, Owner, UserName};
use diwan_value::{DocBuf, Value, doc};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a session exists after its last use.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The SHA-256 of the empty user name: the `uid` of sessions without authentication.
const NO_USER: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
    0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// The maximum number of sessions, as in MongoDB.
const MAX_SESSIONS: usize = 1_000_000;

/// A new random identifier, a UUID of version 4. `None` if the system gives no random bytes.
pub(crate) fn new_id() -> Option<SessionId> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).ok()?;
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    Some(id)
}

/// The identifier of a user's session as documents show it.
pub(crate) fn describe_id(id: &SessionId, owner: &Owner) -> DocBuf {
    let user = owner.as_ref().map_or(NO_USER, |name| Sha256::digest(name.to_string()).into());
    doc! {
        "id": (Value::Binary { subtype: 4, bytes: id }),
        "uid": (Value::Binary { subtype: 0, bytes: &user })
    }
}

/// The sessions that were used within [`TIMEOUT`].
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<SessionId, Session>>,
}

/// A session.
#[derive(Debug)]
struct Session {
    last_use: Instant,
    owner: Owner,
}

/// Why a session cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionError {
    /// There are too many.
    TooMany,
    /// It is another user's.
    NotOwner,
}

impl Sessions {
    /// Notes a use of a session, which begins with its first use.
    pub(crate) fn touch(&self, id: SessionId, caller: &Caller, now: Instant) -> Result<(), SessionError> {
        let mut sessions = self.open.lock();
        if let Some(session) = sessions.get_mut(&id) {
            // A session of a server without users becomes the one of the first user who goes on with it.
            if session.owner.is_none() {
                session.owner = caller.owner();
            }
            if !caller.owns(&session.owner) {
                return Err(SessionError::NotOwner);
            }
            session.last_use = now;
            return Ok(());
        }
        if sessions.len() >= MAX_SESSIONS {
            return Err(SessionError::TooMany);
        }
        sessions.insert(id, Session { last_use: now, owner: caller.owner() });
        Ok(())
    }

    /// Whether a session is the caller's, or does not exist.
    pub(crate) fn is_own(&self, id: &SessionId, caller: &Caller) -> bool {
        self.open.lock().get(id).is_none_or(|session| caller.owns(&session.owner))
    }

    /// The sessions whose owner the filter selects.
    pub(crate) fn owned(&self, filter: impl Fn(&Owner) -> bool) -> Vec<SessionId> {
        let sessions = self.open.lock();
        sessions.iter().filter(|(_, session)| filter(&session.owner)).map(|(id, _)| *id).collect()
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &SessionId) {
        self.open.lock().remove(id);
    }

    /// Ends the sessions that were not used for [`TIMEOUT`], and returns them.
    pub(crate) fn expire(&self, now: Instant) -> Vec<SessionId> {
        let mut sessions = self.open.lock();
        let gone = sessions.extract_if(|_, session| now.duration_since(session.last_use) >= TIMEOUT);
        gone.map(|(id, _)| id).collect()
    }

    /// The number of sessions.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// The documents of `$listSessions`.
    pub(crate) fn describe(&self, now: Instant) -> Vec<DocBuf> {
        let today = unix_millis();
        let describe = |(id, session): (&SessionId, &Session)| {
            let ago = now.saturating_duration_since(session.last_use).as_millis() as i64;
            let name = session.owner.as_ref().map(UserName::to_string);
            let mut doc = doc! {
                "_id": (describe_id(id, &session.owner)),
                "lastUse": (Value::DateTime(today - ago))
            }
            .into_builder();
            if let Some(name) = name {
                doc.append("user", name);
            }
            doc.finish()
        };
        self.open.lock().iter().map(describe).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expire_ends_unused_sessions() {
        let sessions = Sessions::default();
        let start = Instant::now();
        let caller = Caller::Everybody;
        for (id, at) in [([1; 16], start), ([2; 16], start), ([2; 16], start + TIMEOUT / 2)] {
            sessions.touch(id, &caller, at).unwrap();
        }
        assert_eq!(sessions.expire(start + TIMEOUT), [[1; 16]]);
        assert_eq!(sessions.owned(|_| true), [[2; 16]]);
    }
}
