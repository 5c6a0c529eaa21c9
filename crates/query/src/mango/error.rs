//! Refusals in CouchDB's words.

use diwan_value::Value;
use diwan_value::json::{Mode, write_value};
use std::fmt;

/// A refusal: what CouchDB answers with as status, `error` and `reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The HTTP status.
    pub status: u16,
    /// The kind, such as `invalid_operator`.
    pub error: &'static str,
    /// What is wrong.
    pub reason: String,
}

/// What parsing returns.
pub type Result<T> = std::result::Result<T, Error>;

/// How much of a value a reason repeats, in bytes.
const SHOWN_BYTES: usize = 1000;

impl Error {
    pub(super) fn new(error: &'static str, reason: impl Into<String>) -> Error {
        Error { status: 400, error, reason: reason.into() }
    }

    /// A refusal of a value, which stands at the end of the reason.
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
