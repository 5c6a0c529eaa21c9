//! Verifiers for SCRAM, by MongoDB's rules.

use super::{MIN_SCRAM_ITERATIONS, PasswordError, check_iterations, check_len, is_checkable};
use crate::digest::{Prf, equal, hex, random};
use md5::{Digest, Md5};
use std::borrow::Cow;
use std::fmt;

/// A SCRAM mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// SCRAM-SHA-1 over MongoDB's digest of the password.
    ScramSha1,
    /// SCRAM-SHA-256.
    ScramSha256,
}

impl Mechanism {
    /// The name in SASL.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
        }
    }

    /// The mechanism with this name in SASL.
    pub fn from_name(name: &str) -> Option<Mechanism> {
        [Mechanism::ScramSha1, Mechanism::ScramSha256].into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// MongoDB's number of iterations.
    pub fn default_iterations(self) -> u32 {
        match self {
            Mechanism::ScramSha1 => 10_000,
            Mechanism::ScramSha256 => 15_000,
        }
    }

    /// The hash function.
    pub(crate) fn prf(self) -> Prf {
        match self {
            Mechanism::ScramSha1 => Prf::Sha,
            Mechanism::ScramSha256 => Prf::Sha256,
        }
    }

    /// The length of a salt in MongoDB.
    fn salt_len(self) -> usize {
        match self {
            Mechanism::ScramSha1 => 16,
            Mechanism::ScramSha256 => 28,
        }
    }

    /// The text that is hashed for the password.
    fn prepare<'a>(self, user: &str, password: &'a str) -> Result<Cow<'a, str>, PasswordError> {
        match self {
            Mechanism::ScramSha1 => {
                let digest = Md5::new().chain_update(user).chain_update(":mongo:").chain_update(password);
                Ok(Cow::Owned(hex(&digest.finalize())))
            }
            Mechanism::ScramSha256 => {
                stringprep::saslprep(password).map_err(|_| PasswordError::ForbiddenCharacters)
            }
        }
    }
}

/// What the server keeps to check a password with SCRAM (RFC 5802). The password cannot be read from it.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramVerifier {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The iterations of PBKDF2.
    pub iterations: u32,
    /// The salt of PBKDF2.
    pub salt: Vec<u8>,
    /// The hash of the client's key.
    pub stored_key: Vec<u8>,
    /// The server's key.
    pub server_key: Vec<u8>,
}

impl ScramVerifier {
    /// A verifier of the password with a new salt.
    pub fn make(
        mechanism: Mechanism,
        user: &str,
        password: &str,
        iterations: u32,
    ) -> Result<ScramVerifier, PasswordError> {
        check_len(password)?;
        check_iterations(iterations, MIN_SCRAM_ITERATIONS)?;
        let prepared = mechanism.prepare(user, password)?;
        ScramVerifier::of_prepared(mechanism, &prepared, iterations)
    }

    /// A verifier for SCRAM-SHA-1 of a password that the client has hashed (`digestPassword: false`): `digest` is the
    /// lower-case hexadecimal MD5 hash of `user:mongo:password`.
    pub fn make_from_digest(digest: &str, iterations: u32) -> Result<ScramVerifier, PasswordError> {
        check_iterations(iterations, MIN_SCRAM_ITERATIONS)?;
        if digest.len() != 32 || !digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(PasswordError::BadDigest);
        }
        ScramVerifier::of_prepared(Mechanism::ScramSha1, digest, iterations)
    }

    fn of_prepared(
        mechanism: Mechanism,
        prepared: &str,
        iterations: u32,
    ) -> Result<ScramVerifier, PasswordError> {
        let random: [u8; 28] = random().ok_or(PasswordError::NoRandomBytes)?;
        let salt = &random[..mechanism.salt_len()];
        Ok(ScramVerifier::derive(mechanism, prepared.as_bytes(), salt, iterations))
    }

    pub(crate) fn derive(
        mechanism: Mechanism,
        prepared: &[u8],
        salt: &[u8],
        iterations: u32,
    ) -> ScramVerifier {
        let prf = mechanism.prf();
        let salted = prf.pbkdf2(prepared, salt, iterations);
        ScramVerifier {
            mechanism,
            iterations,
            salt: salt.to_vec(),
            stored_key: prf.hash(&[&prf.hmac(&salted, &[b"Client Key"])]),
            server_key: prf.hmac(&salted, &[b"Server Key"]),
        }
    }

    /// A verifier for a user who does not exist, so that the server's answers do not tell. The same user and secret give
    /// the same salt. No password fits it: that would be a preimage of a hash.
    ///
    /// It has the mechanism's default number of iterations. A server with another number for its users sets it in
    /// `iterations`, otherwise the number tells that the user does not exist.
    pub fn decoy(mechanism: Mechanism, user: &str, secret: &[u8]) -> ScramVerifier {
        let prf = mechanism.prf();
        let part = |what: &[u8]| {
            let name = mechanism.name().as_bytes();
            prf.hmac(secret, &[b"diwan decoy ", what, b" ", name, b" ", user.as_bytes()])
        };
        // A mechanism's hash is longer than its salt.
        let mut salt = part(b"salt");
        salt.truncate(mechanism.salt_len());
        ScramVerifier {
            mechanism,
            iterations: mechanism.default_iterations(),
            salt,
            stored_key: part(b"stored key"),
            server_key: part(b"server key"),
        }
    }

    /// Whether this is the user's password. It takes as long as PBKDF2 does.
    pub fn check(&self, user: &str, password: &str) -> bool {
        if !is_checkable(password, self.iterations) {
            return false;
        }
        let Ok(prepared) = self.mechanism.prepare(user, password) else { return false };
        let made = ScramVerifier::derive(self.mechanism, prepared.as_bytes(), &self.salt, self.iterations);
        equal(&made.stored_key, &self.stored_key)
    }
}

impl fmt::Debug for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramVerifier")
            .field("mechanism", &self.mechanism)
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::password::{MAX_ITERATIONS, MAX_PASSWORD_LEN};

    const BOTH: [Mechanism; 2] = [Mechanism::ScramSha1, Mechanism::ScramSha256];

    #[test]
    fn verifier_accepts_its_password_alone() {
        for mechanism in BOTH {
            let verifier = ScramVerifier::make(mechanism, "ada", "secret", 5000).unwrap();
            assert_eq!(verifier.salt.len(), mechanism.salt_len());
            assert_eq!(verifier.stored_key.len(), mechanism.prf().output_len());
            assert!(verifier.check("ada", "secret"));
            assert!(!verifier.check("ada", "Secret"));
            assert!(!verifier.check("ada", ""));
        }
    }

    #[test]
    fn verifier_of_sha1_is_bound_to_the_user() {
        let verifier = ScramVerifier::make(Mechanism::ScramSha1, "ada", "secret", 5000).unwrap();
        assert!(!verifier.check("eve", "secret"));
    }

    #[test]
    fn verifier_from_digest_accepts_the_password() {
        // The MD5 hash of `user:mongo:pencil`.
        let verifier = ScramVerifier::make_from_digest("1c33006ec1ffd90f9cadcbcc0e118200", 5000).unwrap();
        assert!(verifier.check("user", "pencil"));
        assert!(!verifier.check("user", "pencils"));
    }

    #[test]
    fn verifier_from_digest_refuses_what_is_no_md5() {
        for digest in ["", "1c33006ec1ffd90f9cadcbcc0e11820", "1C33006EC1FFD90F9CADCBCC0E118200"] {
            let made = ScramVerifier::make_from_digest(digest, 5000);
            assert_eq!(made.unwrap_err(), PasswordError::BadDigest);
        }
    }

    #[test]
    fn verifier_of_sha256_prepares_the_password() {
        let verifier = ScramVerifier::make(Mechanism::ScramSha256, "ada", "I\u{AD}X\u{A0}\u{2168}", 5000);
        let verifier = verifier.unwrap();
        assert!(verifier.check("ada", "IX IX"));
        let made = ScramVerifier::make(Mechanism::ScramSha256, "ada", "bell \u{7}", 5000);
        assert_eq!(made.unwrap_err(), PasswordError::ForbiddenCharacters);
        assert!(!verifier.check("ada", "\u{7}"));
    }

    #[test]
    fn make_refuses_beyond_its_limits() {
        let make = |password: &str, iterations| {
            ScramVerifier::make(Mechanism::ScramSha256, "ada", password, iterations).unwrap_err()
        };
        assert_eq!(make(&"x".repeat(MAX_PASSWORD_LEN + 1), 5000), PasswordError::TooLong);
        assert_eq!(make("x", 4999), PasswordError::TooFewIterations { given: 4999, least: 5000 });
        assert_eq!(make("x", MAX_ITERATIONS + 1), PasswordError::TooManyIterations(MAX_ITERATIONS + 1));
    }

    #[test]
    fn check_refuses_a_verifier_beyond_the_limits() {
        let mut verifier = ScramVerifier::make(Mechanism::ScramSha256, "ada", "secret", 5000).unwrap();
        for iterations in [0, MAX_ITERATIONS + 1, u32::MAX] {
            verifier.iterations = iterations;
            assert!(!verifier.check("ada", "secret"));
        }
    }

    #[test]
    fn decoy_is_stable_and_looks_like_a_verifier() {
        for mechanism in BOTH {
            let decoy = ScramVerifier::decoy(mechanism, "nobody", b"key");
            let real = ScramVerifier::make(mechanism, "ada", "secret", 5000).unwrap();
            assert_eq!(decoy, ScramVerifier::decoy(mechanism, "nobody", b"key"));
            assert_ne!(decoy.salt, ScramVerifier::decoy(mechanism, "somebody", b"key").salt);
            assert_ne!(decoy.salt, ScramVerifier::decoy(mechanism, "nobody", b"other").salt);
            assert_eq!(decoy.salt.len(), real.salt.len());
            assert_eq!(decoy.stored_key.len(), real.stored_key.len());
            assert_eq!(decoy.server_key.len(), real.server_key.len());
            assert!(!decoy.check("nobody", ""));
        }
    }

    #[test]
    fn debug_hides_the_keys() {
        let verifier = ScramVerifier::decoy(Mechanism::ScramSha1, "ada", b"key");
        let text = format!("{verifier:?}");
        assert_eq!(text, "ScramVerifier { mechanism: ScramSha1, iterations: 10000, .. }");
    }
}
