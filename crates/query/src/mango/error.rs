//! CouchDB's errors for selectors, sorts and field lists.

use diwan_value::Value;
use diwan_value::json::{Mode, write_value};
use std::fmt;

/// An error with CouchDB's status, `error` and `reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The HTTP status.
    pub status: u16,
    /// The error's name, such as `invalid_operator`.
    pub error: &'static str,
    /// The description.
    pub reason: String,
}

/// The result of parsing.
pub type Result<T> = std::result::Result<T, Error>;

/// The largest part of a value that a reason repeats, in bytes.
const SHOWN_BYTES: usize = 1000;

impl Error {
    pub(super) fn new(error: &'static str, reason: impl Into<String>) -> Error {
        Error { status: 400, error, reason: reason.into() }
    }

    /// An error about a value, which is appended to the reason.
    pub(super) fn about(error: &'static str, reason: &str, value: Value<'_>) -> Error {
        let mut json = Vec::new();
        write_value(&mut json, value, Mode::Relaxed);
        let json = String::from_utf8_lossy(&json);
        let end = json.floor_char_boundary(SHOWN_BYTES);
        let more = if end < json.len() { "…" } else { "" };
        Error::new(error, format!("{reason}{}{more}", &json[..end]))
    }

    pub(super) fn bad_argument(operator: &str, value: Value<'_>) -> Error {
        Error::about("bad_arg", &format!("Bad argument for operator {operator}: "), value)
    }

    pub(super) fn invalid_operator(name: &str) -> Error {
        Error::new("invalid_operator", format!("Invalid operator: {name}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Error {}
