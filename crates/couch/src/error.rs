//! The errors of the CouchDB face: an HTTP status, CouchDB's name of the error, and a reason.
//!
//! Every error that a handler returns is constructed here, so that all names and statuses stand side by side.

use diwan_query::code;
use diwan_store::replica::NOT_WRITABLE_PRIMARY;
use diwan_store::{Claimant, Error as StoreError};
use diwan_value::json::{ErrorKind, JsonError};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The result type of handlers.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// An error as the client receives it.
#[derive(Clone, Debug)]
pub(crate) struct Error {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The `error` member of the JSON body.
    pub(crate) error: Cow<'static, str>,
    /// The `reason` member of the JSON body.
    pub(crate) reason: Cow<'static, str>,
    /// Additional response headers.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// CouchDB would store this document, but Diwan cannot. In a bulk write such an error concerns one document; an
    /// error that CouchDB has too fails the whole request.
    pub(crate) is_own_limit: bool,
    /// The audit log has it already.
    pub(crate) is_recorded: bool,
    /// The open transaction that has written the document. Nothing was stored, and the request may run again when the
    /// transaction has ended.
    pub(crate) claimant: Option<Arc<Claimant>>,
}

/// The error name for a nearly full disk, in CouchDB's spelling.
pub(crate) const NO_STORAGE: &str = "insufficent_storage";

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $status:literal $error:expr;)*) => {
        impl Error {
            $($(#[$doc])*
            pub(crate) fn $name(reason: impl Into<Cow<'static, str>>) -> Error {
                Error::new($status, $error, reason)
            })*
        }
    };
}

constructors! {
    /// Malformed input of any kind.
    bad_request => 400 "bad_request";
    /// A query parameter that does not parse.
    query_parse_error => 400 "query_parse_error";
    /// An invalid document id.
    illegal_docid => 400 "illegal_docid";
    /// An invalid database name.
    illegal_database_name => 400 "illegal_database_name";
    /// An invalid partition name.
    illegal_partition => 400 "illegal_partition";
    /// A document that violates CouchDB's rules for documents.
    doc_validation => 400 "doc_validation";
    /// A digest that does not match the received bytes.
    content_md5_mismatch => 400 "content_md5_mismatch";
    /// Wrong credentials, or a `validate_doc_update` function that threw `unauthorized`.
    unauthorized => 401 "unauthorized";
    /// A refused request, or a `validate_doc_update` function that threw `forbidden`.
    forbidden => 403 "forbidden";
    /// A missing database, document or other resource.
    not_found => 404 "not_found";
    /// A method that the path does not support.
    method_not_allowed => 405 "method_not_allowed";
    /// A request body that arrived too slowly.
    request_timeout => 408 "timeout";
    /// A request body, or one document in it, that is too large.
    too_large => 413 "too_large";
    /// An attachment stub whose attachment does not exist.
    missing_stub => 412 "missing_stub";
    /// A document that is too large.
    document_too_large => 413 "document_too_large";
    /// An unsupported content type.
    bad_content_type => 415 "bad_content_type";
    /// A byte range outside the attachment.
    bad_range => 416 "requested_range_not_satisfiable";
    /// A failure of the server.
    internal => 500 "internal_server_error";
    /// A CouchDB feature that Diwan does not implement.
    not_implemented => 501 "not_implemented";
    /// The server is shutting down, or its store refuses writes.
    unavailable => 503 "service_unavailable";
    /// The disk is nearly full.
    insufficient_storage => 507 NO_STORAGE;
}

impl Error {
    /// Creates an error from its parts.
    pub(crate) fn new(
        status: u16,
        error: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Error {
        Error {
            status,
            error: error.into(),
            reason: reason.into(),
            headers: Vec::new(),
            is_own_limit: false,
            is_recorded: false,
            claimant: None,
        }
    }

    /// Marks the error as a limit of Diwan that CouchDB does not have.
    pub(crate) fn own_limit(self) -> Error {
        Error { is_own_limit: true, ..self }
    }

    /// Whether it refuses a right, and the audit log does not have it yet.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.status, 401 | 403) && !self.is_recorded
    }

    /// The edit names a revision that is not a leaf, or names none though the document exists.
    pub(crate) fn conflict() -> Error {
        Error::new(409, "conflict", "Document update conflict.")
    }

    /// The document or the revision does not exist.
    pub(crate) fn missing() -> Error {
        Error::not_found("missing")
    }

    /// The document's winning revision is a deletion.
    pub(crate) fn deleted() -> Error {
        Error::not_found("deleted")
    }

    /// The database does not exist.
    pub(crate) fn no_database() -> Error {
        Error::not_found("Database does not exist.")
    }

    /// The database exists already.
    pub(crate) fn database_exists() -> Error {
        Error::new(412, "file_exists", "The database could not be created, the file already exists.")
    }

    /// A revision that does not parse.
    pub(crate) fn bad_revision() -> Error {
        Error::bad_request("Invalid rev format")
    }

    /// A JSON body that is not an object.
    pub(crate) fn no_object() -> Error {
        Error::bad_request("Request body must be a JSON object")
    }

    /// Text that is not JSON, with the position and the parser's message.
    pub(crate) fn invalid_json(position: usize, message: impl fmt::Display) -> Error {
        Error::bad_request(format!("invalid UTF-8 JSON at byte {position}: {message}"))
    }

    /// With one more header.
    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Error {
        self.headers.push((name, value.into()));
        self
    }

    /// The JSON body of the error response.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "error": self.error, "reason": self.reason })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error, self.reason)
    }
}

impl std::error::Error for Error {}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match error {
            StoreError::Query(inner) => Error::from(inner),
            StoreError::CollectionDropped(_) => Error::no_database(),
            StoreError::DuplicateKey(_) => Error::new(409, "conflict", error.to_string()),
            StoreError::DocumentValidation { details } => Error::forbidden(format!(
                "Document failed validation: {}",
                diwan_value::extjson::to_json(details.as_doc(), diwan_value::extjson::Mode::Relaxed)
            )),
            StoreError::Claimed(claimant) => Error {
                claimant: Some(claimant),
                ..Error::unavailable("an open transaction has written the document; try again")
            },
            full if full.is_out_of_space() => Error::insufficient_storage("database_dir is too full"),
            StoreError::Engine(away) if away.is_unreachable() || away.is_read_only() => {
                Error::unavailable(away.to_string())
            }
            StoreError::Engine(_) | StoreError::Damaged(_) => {
                tracing::error!(%error, "the store failed");
                Error::internal(error.to_string())
            }
        }
    }
}

impl From<diwan_access::Error> for Error {
    fn from(error: diwan_access::Error) -> Error {
        use diwan_access::codes;
        let Some(code) = error.code() else {
            return match error {
                diwan_access::Error::Store(error) => error.into(),
                error => Error::internal(error.to_string()),
            };
        };
        match code {
            codes::USER_EXISTS => Error::new(409, "conflict", error.to_string()),
            codes::USER_NOT_FOUND | codes::ROLE_NOT_FOUND => Error::not_found(error.to_string()),
            codes::BUSY => Error::unavailable(error.to_string()).with_header("retry-after", "1"),
            codes::UNAUTHORIZED => Error::forbidden(error.to_string()),
            _ => Error::bad_request(error.to_string()),
        }
    }
}

impl From<diwan_query::Error> for Error {
    fn from(error: diwan_query::Error) -> Error {
        match error.code {
            code::NAMESPACE_NOT_FOUND => Error::no_database(),
            diwan_access::codes::UNAUTHORIZED | NOT_WRITABLE_PRIMARY => Error::forbidden(error.message),
            code::INDEX_BUILD_ABORTED => Error::not_found(error.message),
            code::BSON_OBJECT_TOO_LARGE => Error::document_too_large(error.message),
            code::MAX_TIME_MS_EXPIRED => Error::new(
                500,
                "timeout",
                "The request could not be processed in a reasonable amount of time.",
            ),
            _ => Error::bad_request(error.message),
        }
    }
}

impl From<diwan_kv::Error> for Error {
    fn from(error: diwan_kv::Error) -> Error {
        StoreError::Engine(error).into()
    }
}

impl From<diwan_script::Error> for Error {
    fn from(error: diwan_script::Error) -> Error {
        match error {
            diwan_script::Error::Store(error) if error.is_out_of_space() => {
                Error::insufficient_storage("not enough room to update index")
            }
            diwan_script::Error::Store(error) => error.into(),
            error => Error::new(error.status(), error.name().to_owned(), error.reason()),
        }
    }
}

impl From<JsonError> for Error {
    fn from(error: JsonError) -> Error {
        match error.kind {
            ErrorKind::Syntax => Error::bad_request(format!("invalid UTF-8 JSON: {error}")),
            ErrorKind::Depth => Error::bad_request(format!("invalid UTF-8 JSON: {error}")).own_limit(),
            ErrorKind::Unstorable => Error::bad_request(error.to_string()).own_limit(),
            ErrorKind::Reserved => Error::doc_validation(error.message).own_limit(),
            ErrorKind::Size => Error::too_large(error.to_string()),
            ErrorKind::DocValidation => Error::doc_validation(error.message),
            ErrorKind::IllegalId => Error::illegal_docid(error.message),
            ErrorKind::BadRequest => Error::bad_request(error.message),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        let error = match diwan_store::blob::error_of(error) {
            Ok(error) => return error.into(),
            Err(error) => error,
        };
        let error = match error.downcast::<Error>() {
            Ok(error) => return error,
            Err(error) => error,
        };
        match error.kind() {
            std::io::ErrorKind::InvalidData => Error::bad_request(error.to_string()),
            std::io::ErrorKind::TimedOut => Error::request_timeout("The request's body arrived too slowly."),
            std::io::ErrorKind::FileTooLarge => Error::too_large("the request entity is too large"),
            _ => Error::bad_request(format!("The request's body could not be read: {error}")),
        }
    }
}

impl From<Error> for std::io::Error {
    /// Carries the error through `Read` and `Write`. The reader of a body gets it back by downcasting; a writer of
    /// rows can only close the connection.
    fn from(error: Error) -> std::io::Error {
        std::io::Error::other(error)
    }
}
