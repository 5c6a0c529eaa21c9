//! Proofs of identity, without a store and without sockets.
//!
//! - [`ScramVerifier`], [`Pbkdf2Verifier`], [`SimpleVerifier`] and [`AdminHash`] check a plain password.
//! - [`ScramConversation`] is the server's side of SASL with SCRAM.
//! - [`Cookie`], [`jwt::verify`] and [`proxy`] check what an HTTP client shows instead of a password.
//! - [`Attempts`] slows those who guess passwords, [`HashingPool`] limits what hashing costs the others, and
//!   [`Verdicts`] spares the hash of a password that was checked a short while ago.
//!
//! Nothing here reads a clock for a decision that a caller could want to repeat: the time is an argument, except in
//! [`Verdicts`] and [`HashingPool`]. Secrets are compared in constant time and are left out of `Debug` and of errors.

mod attempts;
mod digest;
mod hashing;
mod password;
mod sasl;
mod tokens;

pub use attempts::Attempts;
pub use digest::Prf;
pub use hashing::{Busy, HashingPool, Verdicts};
pub use password::{
    AdminHash, MAX_ITERATIONS, MAX_PASSWORD_LEN, MIN_SCRAM_ITERATIONS, Mechanism, PasswordError,
    Pbkdf2Verifier, ScramVerifier, SimpleVerifier,
};
pub use sasl::{MAX_MESSAGE_LEN, SaslError, ScramConversation};
pub use tokens::cookie::{self, Cookie, CookieError, Verified};
pub use tokens::{jwt, proxy};
