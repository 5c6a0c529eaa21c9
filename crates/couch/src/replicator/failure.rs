//! Errors of replications, with CouchDB's names.

use crate::error::{Error, NO_STORAGE};
use std::fmt;
use std::time::Duration;

/// An error of a replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// CouchDB's name of the error.
    pub(crate) error: String,
    /// The reason.
    pub(crate) reason: String,
    /// Whether a retry may succeed.
    pub(crate) kind: Kind,
}

/// Whether and when a retry may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The same request may succeed soon.
    Passing,
    /// The same request may succeed after a pause that the peer requested.
    Pause(Duration),
    /// The request will fail again; the whole job may succeed later.
    Lasting,
    /// The job was cancelled or interrupted.
    Stopped,
}

impl Failure {
    /// A lasting failure.
    pub(crate) fn new(error: impl Into<String>, reason: impl Into<String>) -> Failure {
        Failure { error: error.into(), reason: reason.into(), kind: Kind::Lasting }
    }

    /// A passing failure.
    pub(crate) fn passing(error: impl Into<String>, reason: impl Into<String>) -> Failure {
        Failure { kind: Kind::Passing, ..Failure::new(error, reason) }
    }

    /// The database does not exist.
    pub(crate) fn no_database(uri: &str) -> Failure {
        Failure::new("db_not_found", format!("could not open {uri}"))
    }

    /// The peer requires other credentials.
    pub(crate) fn unauthorized(uri: &str) -> Failure {
        Failure::new("unauthorized", format!("unauthorized to access or create database {uri}"))
    }

    /// The job was stopped.
    pub(crate) fn stopped() -> Failure {
        Failure { kind: Kind::Stopped, ..Failure::new("shutdown", "the replication was stopped") }
    }

    /// Whether a retry of the request may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.kind, Kind::Passing | Kind::Pause(_))
    }

    /// Converts the failure to the error of a `_replicate` request.
    pub(crate) fn into_error(self) -> Error {
        let status = match self.error.as_str() {
            "db_not_found" | "not_found" => 404,
            "unauthorized" => 401,
            "bad_request" => 400,
            "forbidden" => 403,
            "shutdown" => 503,
            NO_STORAGE => 507,
            _ => 500,
        };
        Error::new(status, self.error, self.reason)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error, self.reason)
    }
}

impl std::error::Error for Failure {}
