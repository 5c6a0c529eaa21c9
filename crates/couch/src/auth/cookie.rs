//! The handler of session cookies.

use super::{FoundCaller, Head, now_seconds, session};
use crate::error::{Error, Result};
use crate::server::Couch;
use diwan_access::Caller;
use diwan_auth::{Cookie, CookieError};
use hyper::header::COOKIE;

/// The name of the cookie.
pub(super) const NAME: &str = "AuthSession";

/// Finds the caller by his cookie. A cookie that is too old or of another secret is ignored; one that cannot be read is
/// an error, as in CouchDB.
pub(super) fn find(couch: &Couch, head: &Head<'_>) -> Result<FoundCaller> {
    let Some(text) = value(head) else { return Ok(None) };
    let malformed = |error: CookieError| Error::bad_request(error.to_string());
    let cookie = Cookie::parse(text).map_err(malformed)?;
    let access = &couch.access;
    let Some(user) = access.http_user(&cookie.name)? else { return Ok(None) };
    let secret = access.settings.secret("chttpd_auth", "secret")?;
    let salt = session::salt(&user.credentials.fingerprint());
    let timeout = couch.session_timeout().as_secs();
    let algorithms = couch.hash_algorithms();
    let verified = cookie.verify(secret.as_bytes(), salt.as_bytes(), &algorithms, now_seconds(), timeout);
    let Ok(verified) = verified else { return Ok(None) };
    if user.credentials.is_empty() || !access.may_sign_in_from(&user, head.peer, head.local)? {
        return Ok(None);
    }
    let principal = access.principal(&user)?;
    let renewal = match verified.needs_renewal {
        true => Some(session::new_cookie(couch, &principal, head.is_tls)?),
        false => None,
    };
    Ok(Some((Caller::User(principal), renewal)))
}

/// The value of the cookie, if the request has one.
fn value<'a>(head: &Head<'a>) -> Option<&'a str> {
    let headers = head.headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = headers.flat_map(|text| text.split(';')).filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.trim() == NAME)?;
    Some(value.trim().trim_matches('"')).filter(|value| !value.is_empty())
}
