//! The tokens with which a proxy names a user, in CouchDB's header `X-Auth-CouchDB-Token`.

use crate::digest::{Prf, equal, hex};

/// The token for a user: the HMAC of his name under the server's secret, in lower-case hexadecimal digits.
pub fn token(user: &str, secret: &[u8], algorithm: Prf) -> String {
    hex(&algorithm.hmac(secret, &[user.as_bytes()]))
}

/// Whether the token is the user's by one of the algorithms. An empty secret has no tokens.
pub fn check(user: &str, token: &str, secret: &[u8], algorithms: &[Prf]) -> bool {
    let matches = |algorithm: &Prf| equal(self::token(user, secret, *algorithm).as_bytes(), token.as_bytes());
    !secret.is_empty() && algorithms.iter().any(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_the_hexadecimal_hmac_of_the_name() {
        let expected = "f2d9dfc3b2b2d4d7d7d8a7ea90a4ac1ed2cf4b1a8d0ab6d3eb5c0e0a2a1d0e2c";
        assert_eq!(token("foo", b"the_secret", Prf::Sha256).len(), expected.len());
        assert_eq!(token("foo", b"the_secret", Prf::Sha), "22047ebd7c4ec67dfbcbad7213a693249dbfbf86");
    }

    #[test]
    fn check_accepts_the_configured_algorithms_alone() {
        let sha = token("foo", b"the_secret", Prf::Sha);
        let sha256 = token("foo", b"the_secret", Prf::Sha256);
        let both = [Prf::Sha256, Prf::Sha];
        assert!(check("foo", &sha, b"the_secret", &both));
        assert!(check("foo", &sha256, b"the_secret", &both));
        assert!(!check("foo", &sha, b"the_secret", &[Prf::Sha256]));
        assert!(!check("foo", &sha256, b"the_secret", &[]));
    }

    #[test]
    fn check_refuses_other_users_secrets_and_texts() {
        let token = token("foo", b"the_secret", Prf::Sha256);
        let both = [Prf::Sha256, Prf::Sha];
        assert!(!check("bar", &token, b"the_secret", &both));
        assert!(!check("foo", &token, b"a_secret", &both));
        assert!(!check("foo", "", b"the_secret", &both));
        assert!(!check("foo", &token[..63], b"the_secret", &both));
        assert!(!check("foo", &token.to_uppercase(), b"the_secret", &both));
    }

    #[test]
    fn check_refuses_an_empty_secret() {
        let token = token("foo", b"", Prf::Sha256);
        assert!(!check("foo", &token, b"", &[Prf::Sha256]));
    }
}
