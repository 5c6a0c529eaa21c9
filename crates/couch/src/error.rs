//! The errors of the face: a status, CouchDB's name of the error, and a reason.
//!
//! All of CouchDB's errors that handlers answer are made here, so that their names and statuses stand side by side.

use diwan_query::code;
use diwan_store::Error as StoreError;
use diwan_value::json::{ErrorKind, JsonError};
use std::borrow::Cow;
use std::fmt;

/// What a handler returns.
pub type Result<T> = std::result::Result<T, Error>;

/// An error as a client sees it.
#[derive(Clone, Debug)]
pub struct Error {
    /// The HTTP status.
    pub status: u16,
    /// The member `error`.
    pub error: Cow<'static, str>,
    /// The member `reason`.
    pub reason: Cow<'static, str>,
    /// Headers of the answer beside the usual ones.
    pub headers: Vec<(&'static str, String)>,
    /// CouchDB would store the document that this server cannot. In a list it is refused for itself, where what CouchDB
    /// refuses spoils the list.
    pub is_own_limit: bool,
}

/// The name of the error for a disk that is almost full, as CouchDB spells it.
pub(crate) const NO_STORAGE: &str = "insufficent_storage";

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $status:literal $error:expr;)*) => {
        impl Error {
            $($(#[$doc])*
            pub fn $name(reason: impl Into<Cow<'static, str>>) -> Error {
                Error::new($status, $error, reason)
            })*
        }
    };
}

constructors! {
    /// Malformed input of any kind.
    bad_request => 400 "bad_request";
    /// A parameter that does not read as what it should be.
    query_parse_error => 400 "query_parse_error";
    /// A document id that is not allowed.
    illegal_docid => 400 "illegal_docid";
    /// A database name that is not allowed.
    illegal_database_name => 400 "illegal_database_name";
    /// A partition's name that is not allowed.
    illegal_partition => 400 "illegal_partition";
    /// A document that breaks a rule on documents.
    doc_validation => 400 "doc_validation";
    /// A digest that is not that of what came.
    content_md5_mismatch => 400 "content_md5_mismatch";
    /// Not logged in, or a `validate_doc_update` that threw `unauthorized`.
    unauthorized => 401 "unauthorized";
    /// Not allowed, or a `validate_doc_update` that threw `forbidden`.
    forbidden => 403 "forbidden";
    /// Something that is not there.
    not_found => 404 "not_found";
    /// A method that a path does not know.
    method_not_allowed => 405 "method_not_allowed";
    /// A body that came too slowly.
    request_timeout => 408 "timeout";
    /// A body, or one document in it, that is too large.
    too_large => 413 "too_large";
    /// A stub of an attachment that is not there.
    missing_stub => 412 "missing_stub";
    /// The document.
    document_too_large => 413 "document_too_large";
    /// A content type that is not understood.
    bad_content_type => 415 "bad_content_type";
    /// A range outside the attachment.
    bad_range => 416 "requested_range_not_satisfiable";
    /// The server's fault.
    internal => 500 "internal_server_error";
    /// A known part that is not built.
    not_implemented => 501 "not_implemented";
    /// The server is closing, or its store refuses writes.
    unavailable => 503 "service_unavailable";
    /// The disk is almost full.
    insufficient_storage => 507 NO_STORAGE;
}

impl Error {
    /// Any error.
    pub fn new(
        status: u16,
        error: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Error {
        Error { status, error: error.into(), reason: reason.into(), headers: Vec::new(), is_own_limit: false }
    }

    /// The same error of what CouchDB would store.
    pub fn own_limit(self) -> Error {
        Error { is_own_limit: true, ..self }
    }

    /// A write that names a revision which is not a leaf, or none where there is one.
    pub fn conflict() -> Error {
        Error::new(409, "conflict", "Document update conflict.")
    }

    /// There is no document, or no such revision.
    pub fn missing() -> Error {
        Error::not_found("missing")
    }

    /// The document's winning revision is a deletion.
    pub fn deleted() -> Error {
        Error::not_found("deleted")
    }

    /// There is no database of that name.
    pub fn no_database() -> Error {
        Error::not_found("Database does not exist.")
    }

    /// There is one already.
    pub fn database_exists() -> Error {
        Error::new(412, "file_exists", "The database could not be created, the file already exists.")
    }

    /// A revision that does not read as one.
    pub fn bad_revision() -> Error {
        Error::bad_request("Invalid rev format")
    }

    /// A body that is JSON, and no object.
    pub fn no_object() -> Error {
        Error::bad_request("Request body must be a JSON object")
    }

    /// JSON that does not read: where, and why.
    pub fn invalid_json(position: usize, message: impl fmt::Display) -> Error {
        Error::bad_request(format!("invalid UTF-8 JSON at byte {position}: {message}"))
    }

    /// With one more header.
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Error {
        self.headers.push((name, value.into()));
        self
    }

    /// The body of the answer.
    pub fn to_json(&self) -> serde_json::Value {
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
            full if full.is_out_of_space() => Error::insufficient_storage("database_dir is too full"),
            StoreError::Engine(_) | StoreError::Damaged(_) => {
                tracing::error!(%error, "the store failed");
                Error::internal(error.to_string())
            }
        }
    }
}

impl From<diwan_query::Error> for Error {
    fn from(error: diwan_query::Error) -> Error {
        match error.code {
            code::NAMESPACE_NOT_FOUND => Error::no_database(),
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
            std::io::ErrorKind::TimedOut => Error::request_timeout("The request's body came too slowly."),
            std::io::ErrorKind::FileTooLarge => Error::too_large("the request entity is too large"),
            _ => Error::bad_request(format!("The request's body broke off: {error}")),
        }
    }
}

impl From<Error> for std::io::Error {
    /// For whoever reads a body, who gets it back from the error, and whoever writes the rows of an answer, which can
    /// only break off.
    fn from(error: Error) -> std::io::Error {
        std::io::Error::other(error)
    }
}
