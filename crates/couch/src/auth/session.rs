//! The cookies of sessions: what is in them, and their attributes.

use super::cookie::NAME;
use super::now_seconds;
use crate::error::Result;
use crate::server::Couch;
use diwan_access::Principal;
use diwan_auth::{Prf, cookie};
use jiff::Timestamp;
use std::fmt::Write;

/// What the key of a user's cookies depends on: a new password ends his sessions.
pub(super) fn salt(fingerprint: &[u8]) -> String {
    let mut salt = String::with_capacity(2 * fingerprint.len());
    for byte in fingerprint {
        // Writing to a string cannot fail.
        let _ = write!(salt, "{byte:02x}");
    }
    salt
}

/// The header that begins or continues a session.
pub(crate) fn new_cookie(couch: &Couch, user: &Principal, is_tls: bool) -> Result<String> {
    let secret = couch.access.settings.secret("chttpd_auth", "secret")?;
    let algorithm = couch.hash_algorithms().first().copied().unwrap_or(Prf::Sha256);
    let salt = salt(&user.fingerprint);
    let value = cookie::issue(&user.http_name, now_seconds(), secret.as_bytes(), salt.as_bytes(), algorithm);
    let mut text = format!("{NAME}={value}; Version=1");
    if couch.setting_flag("chttpd_auth", "allow_persistent_cookies") {
        let timeout = couch.session_timeout();
        let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
        let expires = Timestamp::from_second(Timestamp::now().as_second().saturating_add(seconds));
        if let Ok(expires) = expires {
            let _ = write!(text, "; Expires={}", expires.strftime("%a, %d %b %Y %H:%M:%S GMT"));
        }
        let _ = write!(text, "; Max-Age={seconds}");
    }
    text.push_str(&attributes(couch, is_tls));
    Ok(text)
}

/// The header that ends a session.
pub(crate) fn cleared_cookie(couch: &Couch, is_tls: bool) -> String {
    format!("{NAME}=; Version=1{}", attributes(couch, is_tls))
}

fn attributes(couch: &Couch, is_tls: bool) -> String {
    let mut text = String::new();
    if is_tls {
        text.push_str("; Secure");
    }
    let is_plain =
        |value: &String| !value.is_empty() && !value.contains(|c: char| c == ';' || c.is_control());
    if let Some(domain) = couch.setting("chttpd_auth", "cookie_domain").filter(is_plain) {
        let _ = write!(text, "; Domain={domain}");
    }
    text.push_str("; Path=/; HttpOnly");
    let same_site = couch.setting("chttpd_auth", "same_site").unwrap_or_default();
    let same_site = ["None", "Lax", "Strict"].into_iter().find(|name| name.eq_ignore_ascii_case(&same_site));
    if let Some(same_site) = same_site {
        let _ = write!(text, "; SameSite={same_site}");
    }
    text
}
