//! Errors: why an engine does not open, and what the server's errors mean to the layers above.

use diwan_kv::Error;
use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use tokio_postgres::error::{Severity, SqlState};

/// Why an engine could not be opened. Nothing has been written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URI is wrong.
    #[error("the URI of the store is wrong: {reason}")]
    Uri {
        /// The reason.
        reason: String,
    },
    /// Nobody answers at the address.
    #[error(
        "cannot reach PostgreSQL at {address}: {reason}; check the URI's host and port, and that the server runs"
    )]
    Unreachable {
        /// Host and port.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The server did not accept the user or the password.
    #[error("PostgreSQL at {address} does not let {user} in: {reason}; check the URI's user and password")]
    Refused {
        /// Host and port.
        address: String,
        /// The user.
        user: String,
        /// What the server said.
        reason: String,
    },
    /// The database does not exist.
    #[error(
        "PostgreSQL at {address} has no database {database:?}; create it (CREATE DATABASE {database}) or correct the URI"
    )]
    NoDatabase {
        /// Host and port.
        address: String,
        /// The database.
        database: String,
    },
    /// The server's version is not supported.
    #[error("PostgreSQL {version} is too old; 14 or later is needed")]
    TooOld {
        /// The server's version.
        version: String,
    },
    /// The server is not PostgreSQL.
    #[error(
        "{product} lacks the advisory locks or the notifications that a store needs; use PostgreSQL 14 or later"
    )]
    Unsupported {
        /// What it is.
        product: &'static str,
    },
    /// The server accepts no writes.
    #[error(
        "PostgreSQL at {address} is read-only, as a standby is; name the primary in the URI, or several hosts"
    )]
    ReadOnly {
        /// Host and port.
        address: String,
    },
    /// The user may not create the schema, or not use it.
    #[error(
        "{user} may not create or use the schema {schema} ({reason}); let an administrator run \
         CREATE SCHEMA {schema} AUTHORIZATION {user}"
    )]
    NoRight {
        /// The user.
        user: String,
        /// The schema.
        schema: String,
        /// What the server said.
        reason: String,
    },
    /// There is no store, and none was to be made.
    #[error(
        "the database has no store of Diwan's in the schema {schema}; correct the URI, or name the schema with ?schema=…"
    )]
    NoStore {
        /// The schema.
        schema: String,
    },
    /// The schema has other tables.
    #[error(
        "the schema {schema} exists and is not a store of Diwan's; name another with ?schema=… in the URI"
    )]
    NotDiwan {
        /// The schema.
        schema: String,
    },
    /// The tables are of another version of Diwan.
    #[error("the schema {schema} has layout {found}, this version of Diwan uses {expected}; {advice}")]
    OtherLayout {
        /// The schema.
        schema: String,
        /// The layout's version.
        found: i32,
        /// The version that this program uses.
        expected: i32,
        /// What to do.
        advice: &'static str,
    },
    /// The server answered with another error.
    #[error("{context}: {reason}")]
    Server {
        /// The operation that failed.
        context: String,
        /// What the server said.
        reason: String,
    },
}

/// What the server answers, or why it does not.
pub(crate) type Answer<T> = std::result::Result<T, tokio_postgres::Error>;

/// What an error of the server, or of the connection to it, means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The connection is gone, or could not be made. Another may come about.
    Lost,
    /// The transaction met another one. It may be repeated.
    Collision,
    /// The server has no room left.
    Full,
    /// The server accepts no writes.
    ReadOnly,
    /// Whatever else.
    Other,
}

/// The meaning of an error.
pub(crate) fn cause(error: &tokio_postgres::Error) -> Cause {
    let Some(answer) = error.as_db_error() else {
        let mut source = error.source();
        while let Some(inner) = source {
            if inner.is::<io::Error>() {
                return Cause::Lost;
            }
            source = inner.source();
        }
        let is_connecting = error.to_string().starts_with("error connecting");
        return if error.is_closed() || is_connecting { Cause::Lost } else { Cause::Other };
    };
    let code = answer.code();
    let is_of = |codes: &[SqlState]| codes.contains(code);
    if is_of(&[SqlState::DISK_FULL]) {
        Cause::Full
    } else if is_of(&[SqlState::READ_ONLY_SQL_TRANSACTION]) {
        Cause::ReadOnly
    } else if is_of(&[SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED]) {
        Cause::Collision
    } else if is_of(&[
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ]) || code.code().starts_with("08")
        || answer.parsed_severity() == Some(Severity::Panic)
    {
        Cause::Lost
    } else {
        Cause::Other
    }
}

/// The text of an error: the server's own words where there are any.
pub(crate) fn text(error: &tokio_postgres::Error) -> String {
    if let Some(answer) = error.as_db_error() {
        return format!("{} ({})", answer.message(), answer.code().code());
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = inner.source();
    }
    text
}

/// An error as the layers above know it.
pub(crate) fn engine_error(context: &'static str, error: &tokio_postgres::Error) -> Error {
    let kind = match cause(error) {
        Cause::Lost => ErrorKind::ConnectionAborted,
        Cause::Full => ErrorKind::StorageFull,
        Cause::ReadOnly => ErrorKind::ReadOnlyFilesystem,
        Cause::Collision | Cause::Other => ErrorKind::Other,
    };
    io_error(context, kind, text(error))
}

/// An error that has no cause of the server's.
pub(crate) fn io_error(context: &'static str, kind: ErrorKind, text: String) -> Error {
    Error::Io { context: context.into(), source: Arc::new(io::Error::new(kind, text)) }
}
