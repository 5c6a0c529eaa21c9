//! CouchDB's verifiers: those in the documents of `_users`, and the texts in the section `admins` of its configuration.

use super::{PasswordError, check_iterations, check_len, is_checkable};
use crate::digest::{Prf, equal, hex, random};
use std::fmt;

/// The verifier of a document with `password_scheme: "pbkdf2"`.
#[derive(Clone, PartialEq, Eq)]
pub struct Pbkdf2Verifier {
    /// `pbkdf2_prf`; a document without it means [`Prf::Sha`].
    pub prf: Prf,
    /// `iterations`.
    pub iterations: u32,
    /// `salt`. Its text is the salt; it is not decoded.
    pub salt: String,
    /// `derived_key`, in lower-case hexadecimal digits. It is as long as the hash of `prf`.
    pub derived_key: String,
}

impl Pbkdf2Verifier {
    /// A verifier of the password with a new salt.
    pub fn make(password: &str, prf: Prf, iterations: u32) -> Result<Pbkdf2Verifier, PasswordError> {
        check_len(password)?;
        check_iterations(iterations, 1)?;
        let salt = hex(&random::<16>().ok_or(PasswordError::NoRandomBytes)?);
        let derived_key = derive(prf, password, &salt, iterations);
        Ok(Pbkdf2Verifier { prf, iterations, salt, derived_key })
    }

    /// Whether this is the password. It takes as long as PBKDF2 does.
    pub fn check(&self, password: &str) -> bool {
        is_checkable(password, self.iterations)
            && equal(
                derive(self.prf, password, &self.salt, self.iterations).as_bytes(),
                self.derived_key.as_bytes(),
            )
    }
}

fn derive(prf: Prf, password: &str, salt: &str, iterations: u32) -> String {
    hex(&prf.pbkdf2(password.as_bytes(), salt.as_bytes(), iterations))
}

impl fmt::Debug for Pbkdf2Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pbkdf2Verifier")
            .field("prf", &self.prf)
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// The verifier of a document with `password_scheme: "simple"`, which CouchDB no longer makes: one round of SHA-1.
#[derive(Clone, PartialEq, Eq)]
pub struct SimpleVerifier {
    /// `salt`. Its text is the salt; it is not decoded.
    pub salt: String,
    /// `password_sha`: the SHA-1 hash of the password and the salt, in lower-case hexadecimal digits.
    pub password_sha: String,
}

impl SimpleVerifier {
    /// Whether this is the password.
    pub fn check(&self, password: &str) -> bool {
        let hash = || hex(&Prf::Sha.hash(&[password.as_bytes(), self.salt.as_bytes()]));
        check_len(password).is_ok() && equal(hash().as_bytes(), self.password_sha.as_bytes())
    }
}

impl fmt::Debug for SimpleVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimpleVerifier").finish_non_exhaustive()
    }
}

/// The hash of an administrator's password, as CouchDB's configuration holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminHash {
    /// `-pbkdf2:sha256-key,salt,iterations`, or `-pbkdf2-key,salt,iterations` with SHA-1.
    Pbkdf2(Pbkdf2Verifier),
    /// `-hashed-sha,salt`.
    Simple(SimpleVerifier),
}

impl AdminHash {
    /// Reads a value of the section `admins`. `None` says that it is a plain password.
    pub fn parse(text: &str) -> Result<Option<AdminHash>, PasswordError> {
        let read = if let Some(rest) = text.strip_prefix("-hashed-") {
            parse_simple(rest)
        } else if let Some(rest) = text.strip_prefix("-pbkdf2-") {
            parse_pbkdf2(Prf::Sha, rest)
        } else if let Some(rest) = text.strip_prefix("-pbkdf2:") {
            rest.split_once('-').and_then(|(prf, rest)| parse_pbkdf2(Prf::from_name(prf)?, rest))
        } else {
            return Ok(None);
        };
        read.map(Some).ok_or(PasswordError::BadHash)
    }

    /// The text for the configuration.
    pub fn to_config(&self) -> String {
        match self {
            AdminHash::Pbkdf2(Pbkdf2Verifier { prf, iterations, salt, derived_key }) => match prf {
                Prf::Sha => format!("-pbkdf2-{derived_key},{salt},{iterations}"),
                _ => format!("-pbkdf2:{}-{derived_key},{salt},{iterations}", prf.name()),
            },
            AdminHash::Simple(SimpleVerifier { salt, password_sha }) => {
                format!("-hashed-{password_sha},{salt}")
            }
        }
    }

    /// Whether this is the password.
    pub fn check(&self, password: &str) -> bool {
        match self {
            AdminHash::Pbkdf2(verifier) => verifier.check(password),
            AdminHash::Simple(verifier) => verifier.check(password),
        }
    }
}

fn parse_simple(rest: &str) -> Option<AdminHash> {
    let (sha, salt) = rest.split_once(',')?;
    is_hex(sha, Prf::Sha)
        .then(|| AdminHash::Simple(SimpleVerifier { salt: salt.to_owned(), password_sha: sha.to_owned() }))
}

fn parse_pbkdf2(prf: Prf, rest: &str) -> Option<AdminHash> {
    let (key, rest) = rest.split_once(',')?;
    let (salt, iterations) = rest.rsplit_once(',')?;
    if !is_hex(key, prf) || !iterations.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let iterations = iterations.parse().ok().filter(|count| check_iterations(*count, 1).is_ok())?;
    Some(AdminHash::Pbkdf2(Pbkdf2Verifier {
        prf,
        iterations,
        salt: salt.to_owned(),
        derived_key: key.to_owned(),
    }))
}

/// Whether the text is a hash of the function in lower-case hexadecimal digits.
fn is_hex(text: &str, prf: Prf) -> bool {
    text.len() == 2 * prf.output_len() && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::password::{MAX_ITERATIONS, MAX_PASSWORD_LEN};

    /// The document of CouchDB's own documentation: the password is `apple`.
    fn documented() -> Pbkdf2Verifier {
        Pbkdf2Verifier {
            prf: Prf::Sha,
            iterations: 10,
            salt: "1112283cf988a34f124200a050d308a1".to_owned(),
            derived_key: "e579375db0e0c6a6fc79cd9e36a36859f71575c3".to_owned(),
        }
    }

    #[test]
    fn pbkdf2_verifier_reads_couchdbs_document() {
        assert!(documented().check("apple"));
        assert!(!documented().check("orange"));
    }

    #[test]
    fn pbkdf2_verifier_accepts_its_password_alone() {
        for prf in Prf::ALL {
            let verifier = Pbkdf2Verifier::make("secret", prf, 10).unwrap();
            assert_eq!(verifier.derived_key.len(), 2 * prf.output_len());
            assert_eq!(verifier.salt.len(), 32);
            assert!(verifier.check("secret"));
            assert!(!verifier.check("secret "));
        }
    }

    #[test]
    fn pbkdf2_verifier_refuses_a_shorter_key() {
        let mut verifier = Pbkdf2Verifier::make("secret", Prf::Sha256, 10).unwrap();
        verifier.derived_key.truncate(40);
        assert!(!verifier.check("secret"));
        verifier.derived_key.clear();
        assert!(!verifier.check("secret"));
    }

    #[test]
    fn pbkdf2_verifier_keeps_its_limits() {
        let make =
            |password: &str, iterations| Pbkdf2Verifier::make(password, Prf::Sha, iterations).unwrap_err();
        assert_eq!(make(&"x".repeat(MAX_PASSWORD_LEN + 1), 10), PasswordError::TooLong);
        assert_eq!(make("x", 0), PasswordError::TooFewIterations { given: 0, least: 1 });
        assert_eq!(make("x", MAX_ITERATIONS + 1), PasswordError::TooManyIterations(MAX_ITERATIONS + 1));
        let verifier = Pbkdf2Verifier { iterations: u32::MAX, ..documented() };
        assert!(!verifier.check("apple"));
    }

    #[test]
    fn simple_verifier_hashes_password_and_salt() {
        let verifier = SimpleVerifier {
            salt: "salt".to_owned(),
            password_sha: "c88e9c67041a74e0357befdff93f87dde0904214".to_owned(),
        };
        assert!(verifier.check("password"));
        assert!(!verifier.check("passwords"));
    }

    #[test]
    fn admin_hash_reads_what_it_prints() {
        for prf in Prf::ALL {
            let hash = AdminHash::Pbkdf2(Pbkdf2Verifier::make("secret", prf, 10).unwrap());
            let read = AdminHash::parse(&hash.to_config()).unwrap().unwrap();
            assert_eq!(read, hash);
            assert!(read.check("secret"));
        }
        let text = "-hashed-c88e9c67041a74e0357befdff93f87dde0904214,salt";
        let hash = AdminHash::parse(text).unwrap().unwrap();
        assert!(hash.check("password"));
        assert_eq!(hash.to_config(), text);
    }

    #[test]
    fn admin_hash_reads_both_names_of_sha1() {
        let rest = "e579375db0e0c6a6fc79cd9e36a36859f71575c3,1112283cf988a34f124200a050d308a1,10";
        for prefix in ["-pbkdf2-", "-pbkdf2:sha-"] {
            let hash = AdminHash::parse(&format!("{prefix}{rest}")).unwrap().unwrap();
            assert_eq!(hash, AdminHash::Pbkdf2(documented()));
        }
    }

    #[test]
    fn admin_hash_leaves_plain_passwords() {
        for text in ["", "relax", "-", "-pbkdf", "hashed-x,y"] {
            assert_eq!(AdminHash::parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn admin_hash_refuses_damaged_hashes() {
        let key = "e579375db0e0c6a6fc79cd9e36a36859f71575c3";
        for text in [
            "-hashed-".to_owned(),
            format!("-hashed-{key}"),
            "-hashed-xyz,salt".to_owned(),
            "-pbkdf2-".to_owned(),
            format!("-pbkdf2-{key},salt"),
            format!("-pbkdf2-{key},salt,0"),
            format!("-pbkdf2-{key},salt,+1"),
            format!("-pbkdf2-{key},salt,99999999999"),
            format!("-pbkdf2:md5-{key},salt,10"),
            format!("-pbkdf2:sha256-{key},salt,10"),
            format!("-pbkdf2:sha{key},salt,10"),
        ] {
            assert_eq!(AdminHash::parse(&text), Err(PasswordError::BadHash), "{text}");
        }
    }

    #[test]
    fn debug_hides_keys() {
        assert_eq!(format!("{:?}", documented()), "Pbkdf2Verifier { prf: Sha, iterations: 10, .. }");
    }
}
