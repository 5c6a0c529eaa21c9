//! Verifiers of plain passwords: those of SCRAM and those of CouchDB, and the limits that hold for all.

mod couch;
mod scram;

pub use couch::{AdminHash, Pbkdf2Verifier, SimpleVerifier};
pub use scram::{Mechanism, ScramVerifier};

/// The longest password, in bytes.
pub const MAX_PASSWORD_LEN: usize = 4096;

/// The most iterations of a verifier.
pub const MAX_ITERATIONS: u32 = 10_000_000;

/// The fewest iterations of a new SCRAM verifier.
pub const MIN_SCRAM_ITERATIONS: u32 = 5000;

/// Why no verifier can be made of a password, or of a text. It never holds the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// The password is longer than [`MAX_PASSWORD_LEN`].
    #[error("the password is longer than {MAX_PASSWORD_LEN} bytes")]
    TooLong,
    /// There are too few iterations.
    #[error("the iteration count is {given}, but at least {least} are required")]
    TooFewIterations {
        /// The number that was asked for.
        given: u32,
        /// The least number.
        least: u32,
    },
    /// There are more iterations than [`MAX_ITERATIONS`].
    #[error("the iteration count is {0}, but at most {MAX_ITERATIONS} are allowed")]
    TooManyIterations(u32),
    /// SASLprep refuses the password.
    #[error("the password has characters that SCRAM-SHA-256 does not allow (SASLprep, RFC 4013)")]
    ForbiddenCharacters,
    /// The digest of a password is not the hexadecimal text of an MD5 hash.
    #[error("a digested password is 32 lower-case hexadecimal digits")]
    BadDigest,
    /// A text of the section `admins` begins like a hash and is none.
    #[error("the hash of an administrator's password cannot be read")]
    BadHash,
    /// The operating system has no random bytes.
    #[error("the operating system has no random bytes")]
    NoRandomBytes,
}

fn check_len(password: &str) -> Result<(), PasswordError> {
    if password.len() > MAX_PASSWORD_LEN { Err(PasswordError::TooLong) } else { Ok(()) }
}

fn check_iterations(given: u32, least: u32) -> Result<(), PasswordError> {
    match given {
        _ if given < least => Err(PasswordError::TooFewIterations { given, least }),
        _ if given > MAX_ITERATIONS => Err(PasswordError::TooManyIterations(given)),
        _ => Ok(()),
    }
}

/// Whether a stored verifier with this many iterations may be used for this password. A verifier can come from a document
/// that somebody else wrote.
fn is_checkable(password: &str, iterations: u32) -> bool {
    check_len(password).is_ok() && check_iterations(iterations, 1).is_ok()
}
