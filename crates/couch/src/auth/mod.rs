//! Who makes a request, and what he may do.
//!
//! [`sign_in`] asks the authentication handlers in the order of the setting `chttpd/authentication_handlers`: the cookie
//! of a session, a password in every request (`default`), a token (`jwt`), or the headers of a trusted proxy. The first
//! one that finds its kind of proof decides. [`rights`] compares the caller with what a row of the route table needs.
//!
//! On a server without users nobody signs in, and every caller may do everything.

mod attempt;
mod cookie;
mod default;
mod jwt;
mod pipeline;
mod proxy;
mod refused;
pub(crate) mod rights;
mod session;

pub(crate) use attempt::{Attempt, busy};
pub(crate) use pipeline::check as check_pipeline;
pub(crate) use refused::Witness;
pub(crate) use session::{cleared_cookie, new_cookie};

use crate::error::{Error, Result};
use crate::server::Couch;
use diwan_access::Caller;
use hyper::header::{AUTHORIZATION, HeaderMap};
use std::net::IpAddr;
use std::sync::Arc;

/// What a handler needs to know of a request.
pub(crate) struct Head<'a> {
    /// The headers.
    pub(crate) headers: &'a HeaderMap,
    /// The address of the connection's other end.
    pub(crate) peer: IpAddr,
    /// The address of this end.
    pub(crate) local: IpAddr,
    /// Whether the connection is encrypted.
    pub(crate) is_tls: bool,
}

impl Head<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// The caller of a request, and how he signed in.
pub(crate) struct Signed {
    /// The caller.
    pub(crate) caller: Caller,
    /// The name of the handler that found him.
    pub(crate) handler: Option<&'static str>,
    /// A cookie that continues his session.
    pub(crate) renewal: Option<String>,
}

impl Signed {
    fn by(handler: &'static str, caller: Caller) -> Signed {
        Signed { caller, handler: Some(handler), renewal: None }
    }

    fn nobody(caller: Caller) -> Signed {
        Signed { caller, handler: None, renewal: None }
    }
}

/// An authentication handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handler {
    Cookie,
    Default,
    Jwt,
    Proxy,
}

const HANDLERS: [(Handler, &str, &str); 5] = [
    (Handler::Cookie, "cookie", "cookie_authentication_handler"),
    (Handler::Default, "default", "default_authentication_handler"),
    (Handler::Jwt, "jwt", "jwt_authentication_handler"),
    (Handler::Proxy, "proxy", "proxy_authentication_handler"),
    // CouchDB's older spelling.
    (Handler::Proxy, "proxy", "proxy_authentification_handler"),
];

/// The handlers that a setting names, in its order: `{chttpd_auth, cookie_authentication_handler}, …`.
fn handlers(setting: &str) -> Vec<(Handler, &'static str)> {
    let words = setting.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let find = |word: &str| HANDLERS.iter().find(|row| row.2 == word).map(|row| (row.0, row.1));
    words.filter_map(find).collect()
}

/// Whether a setting names a handler at all.
pub(crate) fn has_handler(setting: &str) -> bool {
    !handlers(setting).is_empty()
}

/// The names of the handlers, as `_session` shows them.
pub(crate) fn handler_names(couch: &Couch) -> Vec<&'static str> {
    let setting = couch.setting("chttpd", "authentication_handlers").unwrap_or_default();
    handlers(&setting).into_iter().map(|(_, name)| name).collect()
}

/// The error for a wrong name or password.
pub(crate) fn wrong_password() -> Error {
    Error::unauthorized("Name or password is incorrect.")
}

/// Finds out who makes a request.
pub(crate) async fn sign_in(couch: &Arc<Couch>, head: &Head<'_>) -> Result<Signed> {
    if couch.access.is_open()? {
        // Without users no credentials are right; CouchDB answers wrong ones like this.
        return match head.headers.contains_key(AUTHORIZATION) {
            true => Err(wrong_password()),
            false => Ok(Signed::nobody(Caller::Everybody)),
        };
    }
    let setting = couch.setting("chttpd", "authentication_handlers").unwrap_or_default();
    let handlers = handlers(&setting);
    let has_jwt = handlers.iter().any(|(handler, _)| *handler == Handler::Jwt);
    for (handler, name) in handlers {
        let found = match handler {
            Handler::Cookie => cookie::find(couch, head)?,
            Handler::Default => default::find(couch, head, has_jwt).await?,
            Handler::Jwt => jwt::find(couch, head)?,
            Handler::Proxy => proxy::find(couch, head)?,
        };
        if let Some((caller, renewal)) = found {
            return Ok(Signed { renewal, ..Signed::by(name, caller) });
        }
    }
    Ok(Signed::nobody(Caller::Anonymous))
}

/// What a handler found: the caller, and a cookie that continues his session. `None` leaves the request to the next one.
type FoundCaller = Option<(Caller, Option<String>)>;

/// The time in seconds since 1970.
fn now_seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_are_read_in_the_order_of_the_setting() {
        let text =
            "{chttpd_auth, jwt_authentication_handler},{chttpd_auth,default_authentication_handler}, {x, y}";
        assert_eq!(handlers(text), [(Handler::Jwt, "jwt"), (Handler::Default, "default")]);
        assert!(handlers("").is_empty());
    }
}
