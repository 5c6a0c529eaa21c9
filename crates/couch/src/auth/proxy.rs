//! The handler of requests that a trusted proxy has checked: it names the user and his roles in headers.

use super::{FoundCaller, Head};
use crate::error::Result;
use crate::server::Couch;
use diwan_access::Caller;
use diwan_auth::proxy;

/// Finds the caller whom the proxy names. Unless `proxy_use_secret` is off, the proxy proves itself by a token.
pub(super) fn find(couch: &Couch, head: &Head<'_>) -> Result<FoundCaller> {
    let header = |key: &str, default: &str| {
        let name = couch.setting("chttpd_auth", key).filter(|name| !name.is_empty());
        head.header(name.as_deref().unwrap_or(default))
    };
    let Some(name) = header("x_auth_username", "X-Auth-CouchDB-UserName").filter(|name| !name.is_empty())
    else {
        return Ok(None);
    };
    if couch.setting_flag("chttpd_auth", "proxy_use_secret") {
        let secret = couch.access.settings.secret("chttpd_auth", "secret")?;
        let token = header("x_auth_token", "X-Auth-CouchDB-Token").unwrap_or_default();
        if !proxy::check(name, token, secret.as_bytes(), &couch.hash_algorithms()) {
            return Ok(None);
        }
    }
    let roles = header("x_auth_roles", "X-Auth-CouchDB-Roles").unwrap_or_default();
    let roles: Vec<String> =
        roles.split(',').map(str::trim).filter(|role| !role.is_empty()).map(str::to_owned).collect();
    Ok(Some((Caller::User(couch.access.external(name, &roles, None)?), None)))
}
