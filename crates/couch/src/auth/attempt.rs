//! An attempt to sign in with a name and a password.
//!
//! It begins with a delay that grows with the failures before it, and goes on with the hash of the password. Neither may
//! hold a thread that others need: the caller sleeps as a task, and [`Attempt::check`] runs on one of a few threads.

use super::wrong_password;
use crate::error::{Error, Result};
use crate::server::Couch;
use diwan_access::{ADMIN, Caller, Principal, User};
use diwan_auth::{Mechanism, ScramVerifier};
use serde_json::json;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// The longest name that is looked up.
const LONGEST_NAME: usize = 512;

/// A verifier for names that do not exist, so that they take as long as others.
static NOBODY: LazyLock<Option<ScramVerifier>> =
    LazyLock::new(|| ScramVerifier::make(Mechanism::ScramSha256, "nobody", "", 15_000).ok());

/// The attempt.
pub(crate) struct Attempt {
    name: String,
    password: String,
    peer: IpAddr,
    local: IpAddr,
    /// The user, who may not exist.
    user: Option<User>,
    /// When the password may be checked.
    pub(crate) ready: Instant,
}

impl Attempt {
    /// Begins an attempt.
    pub(crate) fn begin(
        couch: &Couch,
        name: String,
        password: String,
        peer: IpAddr,
        local: IpAddr,
    ) -> Result<Attempt> {
        let user = if name.len() > LONGEST_NAME { None } else { couch.access.http_user(&name)? };
        let now = Instant::now();
        let is_known = user.as_ref().is_some_and(|user| couch.access.knows_password(user, &password));
        let ready = match is_known {
            true => now,
            false => {
                let account =
                    user.as_ref().map_or_else(|| format!("{name}@{ADMIN}"), |user| user.name.to_string());
                now + couch.access.attempts.begin(&account, peer, now).map_err(|_| busy())?
            }
        };
        Ok(Attempt { name, password, peer, local, user, ready })
    }

    /// The user, if his password was found right a short while ago, so that nothing has to be computed.
    pub(crate) fn known(&self, couch: &Couch) -> Result<Option<Arc<Principal>>> {
        match &self.user {
            Some(user) if couch.access.knows_password(user, &self.password) => {
                self.admit(couch, user).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Checks the password. This takes as long as its hash does.
    pub(crate) fn check(&self, couch: &Couch) -> Result<Arc<Principal>> {
        let access = &couch.access;
        let user = match &self.user {
            Some(user) if access.check_password(user, &self.password).map_err(|_| busy())? => user,
            known => {
                // A failure takes as long for a name that does not exist, or whose verifier is cheaper, as for others.
                if known.as_ref().is_none_or(|user| user.credentials.scram_sha_256.is_none()) {
                    let waste =
                        || NOBODY.as_ref().is_some_and(|nobody| nobody.check("nobody", &self.password));
                    access.hashing.run(waste).map_err(|_| busy())?;
                }
                return Err(self.failed(couch));
            }
        };
        access.attempts.succeeded(&user.name.to_string(), self.peer, Instant::now());
        self.admit(couch, user)?;
        let upgraded = self.upgrade(couch, user);
        let principal = access.principal(upgraded.as_ref().unwrap_or(user))?;
        let caller = Caller::User(principal.clone());
        access.audit.record("signIn", &caller, Some(self.peer), json!({ "interface": "http" }));
        Ok(principal)
    }

    fn admit(&self, couch: &Couch, user: &User) -> Result<Arc<Principal>> {
        match couch.access.may_sign_in_from(user, self.peer, self.local)? {
            true => Ok(couch.access.principal(user)?),
            false => Err(self.failed(couch)),
        }
    }

    fn failed(&self, couch: &Couch) -> Error {
        tracing::warn!(name = self.name, peer = %self.peer, "authentication failed");
        let details = json!({ "interface": "http", "name": self.name });
        couch.access.audit.record("signInFailed", &Caller::Anonymous, Some(self.peer), details);
        wrong_password()
    }

    /// Gives a user who came from a CouchDB the verifiers that MongoDB's clients need. Returns him as he is then.
    fn upgrade(&self, couch: &Couch, user: &User) -> Option<User> {
        let has_scram = user.credentials.scram_sha_256.is_some() || user.credentials.scram_sha_1.is_some();
        if has_scram || !couch.setting_flag("chttpd_auth", "upgrade_hash_on_auth") {
            return None;
        }
        let upgraded = couch.access.upgrade_credentials(user, &self.password);
        let found = upgraded.and_then(|()| couch.access.http_user(&user.http_name));
        match found {
            Ok(found) => {
                if let Some(user) = &found {
                    couch.access.remember_password(user, &self.password);
                }
                found
            }
            Err(error) => {
                tracing::warn!(%error, name = user.http_name, "a user got no SCRAM verifiers");
                None
            }
        }
    }
}

/// The error while too many passwords are being checked.
pub(crate) fn busy() -> Error {
    Error::unavailable("Too many passwords are being checked. Try again later.")
        .with_header("retry-after", "1")
}
