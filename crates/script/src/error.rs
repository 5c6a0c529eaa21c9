//! What scripts and views refuse, with CouchDB's names and texts.

/// What this crate's operations return.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a script, a view or a query of one.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A function does not compile, or is none.
    #[error("{0}")]
    Compilation(String),
    /// A call took longer than it may.
    #[error("The script ran for more than {0} seconds and was ended.")]
    Timeout(u64),
    /// A call needed more memory than it may, or nested too deeply for its stack.
    #[error("{0}")]
    Exhausted(String),
    /// A script threw `["error", name, reason]`, an object with `error` and `reason`, an `Error` or anything else.
    #[error("{name}: {reason}")]
    Thrown {
        /// The error's name, as the client sees it.
        name: String,
        /// Why.
        reason: String,
    },
    /// A script threw `{forbidden: …}`.
    #[error("{0}")]
    Forbidden(String),
    /// A script threw `{unauthorized: …}`.
    #[error("{0}")]
    Unauthorized(String),
    /// There is no such function or view.
    #[error("{0}")]
    NotFound(String),
    /// A parameter of a query is wrong, alone or beside the others.
    #[error("{0}")]
    Query(String),
    /// The design document is not one.
    #[error("{0}")]
    Design(String),
    /// A built-in reduce does not take such values.
    #[error("{0}")]
    InvalidValue(String),
    /// Whoever waited is gone, or the store is closing.
    #[error("The request was ended.")]
    Ended,
    /// An index was made invalid while it was read or built; asking again is right.
    #[error("The index was replaced while it was in use.")]
    Replaced,
    /// The store refused or failed.
    #[error("{0}")]
    Store(#[from] diwan_store::Error),
}

impl Error {
    /// The error's name, as CouchDB's `error` member has it.
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

    /// The error's reason, as CouchDB's `reason` member has it.
    pub fn reason(&self) -> String {
        match self {
            Error::Thrown { reason, .. } => reason.clone(),
            other => other.to_string(),
        }
    }

    /// The status that an HTTP response carries.
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
