//! CouchDB's cookie `AuthSession`.
//!
//! The cookie is Base64 for URLs, without padding, of `name:TIME:` and an HMAC. `TIME` is when the cookie was made, in
//! seconds since 1970 and hexadecimal digits. The HMAC covers `name:TIME`; its key is the server's secret with the user's
//! salt behind it, so a new password, which has a new salt, ends all sessions.

use crate::digest::{Prf, equal};
use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::fmt;

/// The longest text of a cookie, in bytes.
pub const MAX_COOKIE_LEN: usize = 4096;

/// How far the clock of the server that made the cookie may be ahead, in seconds.
pub const MAX_AHEAD: u64 = 60;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why a cookie is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CookieError {
    /// The text is no cookie of this kind. CouchDB answers 400 with this text.
    #[error("Malformed AuthSession cookie. Please clear your cookies.")]
    Malformed,
    /// The server did not make the cookie with this secret and for this salt. CouchDB ignores the cookie.
    #[error("the HMAC of the AuthSession cookie is wrong")]
    WrongHmac,
    /// The cookie is too old. CouchDB ignores it.
    #[error("the AuthSession cookie has expired")]
    Expired,
    /// The cookie comes from the future.
    #[error("the AuthSession cookie was made in the future")]
    NotYetValid,
}

/// A cookie that was read. Its name is unproved until [`verify`](Cookie::verify) returns.
#[derive(Clone, PartialEq, Eq)]
pub struct Cookie {
    /// The user's name.
    pub name: String,
    /// When the cookie was made, in seconds since 1970.
    pub time: u64,
    /// What the HMAC covers.
    covered: String,
    hmac: Vec<u8>,
}

/// A cookie whose HMAC and time are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Whether less than 90 % of the timeout are left, so that the client gets a new cookie.
    pub needs_renewal: bool,
}

/// Makes a cookie. A name with a colon makes a cookie that is never accepted: CouchDB forbids such names.
pub fn issue(name: &str, now_seconds: u64, secret: &[u8], user_salt: &[u8], algorithm: Prf) -> String {
    let mut bytes = format!("{name}:{now_seconds:X}").into_bytes();
    let hmac = algorithm.hmac(&key(secret, user_salt), &[&bytes]);
    bytes.push(b':');
    bytes.extend_from_slice(&hmac);
    BASE64.encode(bytes)
}

impl Cookie {
    /// Reads the cookie's value.
    pub fn parse(text: &str) -> Result<Cookie, CookieError> {
        if text.len() > MAX_COOKIE_LEN {
            return Err(CookieError::Malformed);
        }
        let bytes = BASE64.decode(text).map_err(|_| CookieError::Malformed)?;
        Cookie::of_bytes(&bytes).ok_or(CookieError::Malformed)
    }

    fn of_bytes(bytes: &[u8]) -> Option<Cookie> {
        let mut parts = bytes.splitn(3, |byte| *byte == b':');
        let name = std::str::from_utf8(parts.next()?).ok()?;
        let digits = std::str::from_utf8(parts.next()?).ok()?;
        let hmac = parts.next()?.to_vec();
        if name.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let time = u64::from_str_radix(digits, 16).ok()?;
        Some(Cookie { name: name.to_owned(), time, covered: format!("{name}:{digits}"), hmac })
    }

    /// Checks the cookie with the server's secret, the salt of the user who is named, and the algorithms of CouchDB's
    /// setting `hash_algorithms`. An empty secret has no cookies.
    pub fn verify(
        &self,
        secret: &[u8],
        user_salt: &[u8],
        algorithms: &[Prf],
        now_seconds: u64,
        timeout_seconds: u64,
    ) -> Result<Verified, CookieError> {
        let key = key(secret, user_salt);
        let matches = |algorithm: &Prf| equal(&algorithm.hmac(&key, &[self.covered.as_bytes()]), &self.hmac);
        if secret.is_empty() || !algorithms.iter().any(matches) {
            return Err(CookieError::WrongHmac);
        }
        if self.time > now_seconds.saturating_add(MAX_AHEAD) {
            return Err(CookieError::NotYetValid);
        }
        let age = now_seconds.saturating_sub(self.time);
        if age >= timeout_seconds {
            return Err(CookieError::Expired);
        }
        let left = u128::from(timeout_seconds - age);
        Ok(Verified { needs_renewal: left * 10 < u128::from(timeout_seconds) * 9 })
    }
}

fn key(secret: &[u8], user_salt: &[u8]) -> Vec<u8> {
    [secret, user_salt].concat()
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cookie").field("name", &self.name).field("time", &self.time).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"92de07df7e7a3fe14808cef90a7cc0d91";
    const SALT: &[u8] = b"1112283cf988a34f124200a050d308a1";
    const NOW: u64 = 1_700_000_000;
    const ALL: &[Prf] = &[Prf::Sha256, Prf::Sha];

    fn verify(cookie: &str, now: u64) -> Result<Verified, CookieError> {
        Cookie::parse(cookie)?.verify(SECRET, SALT, ALL, now, 600)
    }

    fn of_bytes(bytes: &[u8]) -> Result<Cookie, CookieError> {
        Cookie::parse(&BASE64.encode(bytes))
    }

    #[test]
    fn issue_writes_couchdbs_form() {
        let cookie = issue("jan", 0x1234_ABCD, SECRET, SALT, Prf::Sha);
        let bytes = BASE64.decode(&cookie).unwrap();
        let hmac = Prf::Sha.hmac(&[SECRET, SALT].concat(), &[b"jan:1234ABCD"]);
        assert_eq!(bytes, [b"jan:1234ABCD:", hmac.as_slice()].concat());
        assert!(!cookie.contains(['=', '+', '/']));
    }

    #[test]
    fn cookie_is_accepted_until_the_timeout() {
        for algorithm in [Prf::Sha256, Prf::Sha] {
            let cookie = issue("jan", NOW, SECRET, SALT, algorithm);
            assert_eq!(Cookie::parse(&cookie).unwrap().name, "jan");
            assert_eq!(verify(&cookie, NOW), Ok(Verified { needs_renewal: false }));
            assert_eq!(verify(&cookie, NOW + 60), Ok(Verified { needs_renewal: false }));
            assert_eq!(verify(&cookie, NOW + 61), Ok(Verified { needs_renewal: true }));
            assert_eq!(verify(&cookie, NOW + 599), Ok(Verified { needs_renewal: true }));
            assert_eq!(verify(&cookie, NOW + 600), Err(CookieError::Expired));
        }
    }

    #[test]
    fn cookie_of_the_future_is_refused() {
        let cookie = issue("jan", NOW, SECRET, SALT, Prf::Sha256);
        assert_eq!(verify(&cookie, NOW - MAX_AHEAD), Ok(Verified { needs_renewal: false }));
        assert_eq!(verify(&cookie, NOW - MAX_AHEAD - 1), Err(CookieError::NotYetValid));
        let cookie = issue("jan", u64::MAX, SECRET, SALT, Prf::Sha256);
        assert_eq!(verify(&cookie, NOW), Err(CookieError::NotYetValid));
    }

    #[test]
    fn cookie_of_another_secret_salt_or_algorithm_is_refused() {
        let cookie = Cookie::parse(&issue("jan", NOW, SECRET, SALT, Prf::Sha)).unwrap();
        for (secret, salt, algorithms) in
            [(b"other".as_slice(), SALT, ALL), (SECRET, b"other", ALL), (SECRET, SALT, &[Prf::Sha256])]
        {
            let verified = cookie.verify(secret, salt, algorithms, NOW, 600);
            assert_eq!(verified, Err(CookieError::WrongHmac));
        }
    }

    #[test]
    fn cookie_of_an_empty_secret_is_refused() {
        let cookie = Cookie::parse(&issue("jan", NOW, b"", SALT, Prf::Sha256)).unwrap();
        assert_eq!(cookie.verify(b"", SALT, ALL, NOW, 600), Err(CookieError::WrongHmac));
    }

    #[test]
    fn cookie_of_a_name_with_a_colon_is_refused() {
        let cookie = issue("jan:65538F80", NOW, SECRET, SALT, Prf::Sha256);
        assert_eq!(verify(&cookie, NOW), Err(CookieError::WrongHmac));
    }

    #[test]
    fn parse_accepts_padding() {
        let cookie = format!("{}=", BASE64.encode(b"jan:1F:hmac0"));
        assert!(Cookie::parse(cookie.trim_end_matches('=')).is_ok());
        assert!(Cookie::parse(&format!("{}==", BASE64.encode(b"jan:1F:hmac1!"))).is_ok());
    }

    #[test]
    fn parse_refuses_malformed_cookies() {
        for bytes in [
            b"".as_slice(),
            b"jan",
            b"jan:1F",
            b":1F:hmac",
            b"jan::hmac",
            b"jan:+1F:hmac",
            b"jan:1G:hmac",
            b"jan:11112222333344445:hmac",
            b"j\xFFn:1F:hmac",
        ] {
            assert_eq!(of_bytes(bytes), Err(CookieError::Malformed));
        }
        assert_eq!(Cookie::parse("a+b/"), Err(CookieError::Malformed));
        assert_eq!(Cookie::parse("é"), Err(CookieError::Malformed));
        assert!(of_bytes(&[b"jan:1F:", [b'x'; 3000].as_slice()].concat()).is_ok());
        assert!(of_bytes(&[b"jan:1F:", [b'x'; 3100].as_slice()].concat()).is_err());
    }

    #[test]
    fn corrupted_cookies_never_verify() {
        let cookie = BASE64.decode(issue("jan", NOW, SECRET, SALT, Prf::Sha256)).unwrap();
        let mut rng = fastrand::Rng::with_seed(9);
        for _ in 0..5000 {
            let mut bytes = cookie.clone();
            let at = rng.usize(..bytes.len());
            bytes[at] ^= rng.u8(1..);
            assert!(verify(&BASE64.encode(bytes), NOW).is_err());
        }
        for end in 0..cookie.len() {
            assert!(verify(&BASE64.encode(&cookie[..end]), NOW).is_err());
        }
    }
}
