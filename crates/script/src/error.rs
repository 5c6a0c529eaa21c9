//! Errors of scripts and views, with CouchDB's names and texts.

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a script, a view or a view query.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A function does not compile or is not a function.
    #[error("{0}")]
    Compilation(String),
    /// A call exceeded the time limit.
    #[error("The script ran for more than {0} seconds and was ended.")]
    Timeout(u64),
    /// A call exceeded the limit of memory, stack or output.
    #[error("{0}")]
    Exhausted(String),
    /// A script threw `["error", name, reason]`, an object with `error` and `reason`, an `Error` or anything else.
    #[error("{name}: {reason}")]
    Thrown {
        /// The error's name, as the client sees it.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A script threw `{forbidden: …}`.
    #[error("{0}")]
    Forbidden(String),
    /// A script threw `{unauthorized: …}`.
    #[error("{0}")]
    Unauthorized(String),
    /// The function or view does not exist.
    #[error("{0}")]
    NotFound(String),
    /// A query parameter is invalid, alone or in combination with others.
    #[error("{0}")]
    Query(String),
    /// The design document is invalid.
    #[error("{0}")]
    Design(String),
    /// A built-in reduce function cannot reduce these values.
    #[error("{0}")]
    InvalidValue(String),
    /// The request was cancelled, or the store is closing.
    #[error("The request was ended.")]
    Ended,
    /// The index was removed while it was read or built. The caller should retry.
    #[error("The index was replaced while it was in use.")]
    Replaced,
    /// An error of the store.
    #[error("{0}")]
    Store(#[from] diwan_store::Error),
}

impl Error {
    /// The name for CouchDB's `error` member.
    pub fn name(&self) -> &str {
        match self {
            Error::Compilation(_) => "compilation_error",
            Error::Timeout(_) => "timeout",
            Error::Exhausted(_) => "os_process_error",
            Error::Thrown { name, .. } => name,
            Error::Forbidden(_) => "forbidden",
            Error::Unauthorized(_) => "unauthorized",
            Error::NotFound(_) => "not_found",
            Error::Query(_) => "query_parse_error",
            Error::Design(_) => "invalid_design_doc",
            Error::InvalidValue(_) => "invalid_value",
            Error::Ended | Error::Replaced => "shutdown",
            Error::Store(_) => "internal_server_error",
        }
    }

    /// The text for CouchDB's `reason` member.
    pub fn reason(&self) -> String {
        match self {
            Error::Thrown { reason, .. } => reason.clone(),
            other => other.to_string(),
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Error::Compilation(_) | Error::Query(_) | Error::Design(_) => 400,
            Error::Thrown { name, .. } => match name.as_str() {
                "bad_request" | "query_parse_error" | "compilation_error" => 400,
                "unauthorized" => 401,
                "forbidden" => 403,
                "not_found" => 404,
                "method_not_allowed" => 405,
                "not_acceptable" => 406,
                "conflict" => 409,
                _ => 500,
            },
            Error::Forbidden(_) => 403,
            Error::Unauthorized(_) => 401,
            Error::NotFound(_) => 404,
            Error::Ended | Error::Replaced => 503,
            Error::Timeout(_) | Error::Exhausted(_) | Error::InvalidValue(_) | Error::Store(_) => 500,
        }
    }
}

impl From<diwan_kv::Error> for Error {
    fn from(error: diwan_kv::Error) -> Error {
        Error::Store(error.into())
    }
}
