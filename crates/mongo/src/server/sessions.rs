//! Logical sessions. A session is a UUID, chosen by the client or by `startSession`. It ends after 30 minutes without use.
//!
//! A session holds no state. Cursors and running commands refer to their session by its identifier.

use crate::request::arguments::SessionId;
use crate::server::clock::unix_millis;
use diwan_value::{DocBuf, Value, doc};
use parking_lot::Mutex;
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

/// The sessions that were used within [`TIMEOUT`].
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    last_use: Mutex<HashMap<SessionId, Instant>>,
}

impl Sessions {
    /// Notes a use of a session. False if the session is new and there are too many.
    pub(crate) fn touch(&self, id: SessionId, now: Instant) -> bool {
        let mut sessions = self.last_use.lock();
        if let Some(last_use) = sessions.get_mut(&id) {
            *last_use = now;
            return true;
        }
        let room = sessions.len() < MAX_SESSIONS;
        if room {
            sessions.insert(id, now);
        }
        room
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &SessionId) {
        self.last_use.lock().remove(id);
    }

    /// Ends the sessions that were not used for [`TIMEOUT`], and returns them.
    pub(crate) fn expire(&self, now: Instant) -> Vec<SessionId> {
        let mut sessions = self.last_use.lock();
        let gone = sessions.extract_if(|_, last_use| now.duration_since(*last_use) >= TIMEOUT);
        gone.map(|(id, _)| id).collect()
    }

    /// The number of sessions.
    pub(crate) fn count(&self) -> usize {
        self.last_use.lock().len()
    }

    /// The documents of `$listSessions`.
    pub(crate) fn describe(&self, now: Instant) -> Vec<DocBuf> {
        let today = unix_millis();
        let describe = |(id, last_use): (&SessionId, &Instant)| {
            let ago = now.saturating_duration_since(*last_use).as_millis() as i64;
            doc! {
                "_id": {
                    "id": (Value::Binary { subtype: 4, bytes: id }),
                    "uid": (Value::Binary { subtype: 0, bytes: &NO_USER })
                },
                "lastUse": (Value::DateTime(today - ago))
            }
        };
        self.last_use.lock().iter().map(describe).collect()
    }

    /// The identifiers of all sessions.
    pub(crate) fn list(&self) -> Vec<SessionId> {
        self.last_use.lock().keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expire_ends_unused_sessions() {
        let sessions = Sessions::default();
        let start = Instant::now();
        assert!(sessions.touch([1; 16], start));
        assert!(sessions.touch([2; 16], start));
        assert!(sessions.touch([2; 16], start + TIMEOUT / 2));
        assert_eq!(sessions.expire(start + TIMEOUT), [[1; 16]]);
        assert_eq!(sessions.list(), [[2; 16]]);
    }
}
