//! Why a replication ends before its time, in CouchDB's words.

use crate::error::{Error, NO_STORAGE};
use std::fmt;
use std::time::Duration;

/// An error of a replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// CouchDB's name of the error.
    pub error: String,
    /// What happened.
    pub reason: String,
    /// Whether trying the same once more may help.
    pub kind: Kind,
}

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The same request may do better in a moment.
    Passing,
    /// The same, but not before a pause that the peer asked for.
    Pause(Duration),
    /// The request will not do better; the job as a whole may, later.
    Lasting,
    /// Nobody wants the result any more.
    Stopped,
}

impl Failure {
    /// One that the request will meet again.
    pub fn new(error: impl Into<String>, reason: impl Into<String>) -> Failure {
        Failure { error: error.into(), reason: reason.into(), kind: Kind::Lasting }
    }

    /// One that may be over soon.
    pub fn passing(error: impl Into<String>, reason: impl Into<String>) -> Failure {
        Failure { kind: Kind::Passing, ..Failure::new(error, reason) }
    }

    /// There is no database there.
    pub fn no_database(uri: &str) -> Failure {
        Failure::new("db_not_found", format!("could not open {uri}"))
    }

    /// The peer wants to know who asks.
    pub fn unauthorized(uri: &str) -> Failure {
        Failure::new("unauthorized", format!("unauthorized to access or create database {uri}"))
    }

    /// The job was stopped.
    pub fn stopped() -> Failure {
        Failure { kind: Kind::Stopped, ..Failure::new("shutdown", "the replication was stopped") }
    }

    /// Whether the same request may do better.
    pub fn is_passing(&self) -> bool {
        matches!(self.kind, Kind::Passing | Kind::Pause(_))
    }

    /// As a client of `_replicate` gets it.
    pub fn into_error(self) -> Error {
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
