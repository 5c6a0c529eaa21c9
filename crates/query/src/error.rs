//! The one error type of the query language: MongoDB's error code and message.

use diwan_value::DocBuf;
use std::fmt;

/// An error with MongoDB's documented numeric code and the message that clients see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The code: one of [`code`], or one of MongoDB's five-digit locations.
    pub code: i32,
    /// The complete message for the client.
    pub message: String,
    /// Fields beside code and message in a reply, such as `keyValue`.
    pub details: Option<Box<DocBuf>>,
}

/// The result of parsing or evaluation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with any code.
    pub fn new(code: i32, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), details: None }
    }

    /// An error with further fields.
    pub fn with_details(code: i32, message: impl Into<String>, details: DocBuf) -> Error {
        Error { code, message: message.into(), details: Some(Box::new(details)) }
    }

    /// The same error with its context before the message, as MongoDB chains messages.
    pub fn in_context(self, doing: &str) -> Error {
        Error { message: format!("{doing} :: caused by :: {}", self.message), ..self }
    }

    /// `BadValue`.
    pub fn bad_value(message: impl Into<String>) -> Error {
        Error::new(code::BAD_VALUE, message)
    }

    /// `FailedToParse`.
    pub(crate) fn failed_to_parse(message: impl Into<String>) -> Error {
        Error::new(code::FAILED_TO_PARSE, message)
    }

    /// `TypeMismatch`.
    pub(crate) fn type_mismatch(message: impl Into<String>) -> Error {
        Error::new(code::TYPE_MISMATCH, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The named codes that the layers below `mongo` raise. `mongo/src/error/codes.rs` has the names of all codes.
#[allow(missing_docs)]
pub mod code {
    pub const INTERNAL_ERROR: i32 = 1;
    pub const BAD_VALUE: i32 = 2;
    pub const FAILED_TO_PARSE: i32 = 9;
    pub const UNSUPPORTED_FORMAT: i32 = 12;
    pub const TYPE_MISMATCH: i32 = 14;
    pub const OVERFLOW: i32 = 15;
    pub const INVALID_LENGTH: i32 = 16;
    pub const ILLEGAL_OPERATION: i32 = 20;
    pub const INDEX_NOT_FOUND: i32 = 27;
    pub const NAMESPACE_NOT_FOUND: i32 = 26;
    pub const PATH_NOT_VIABLE: i32 = 28;
    pub const FILE_STREAM_FAILED: i32 = 39;
    pub const CANNOT_BACKFILL_ARRAY: i32 = 34;
    pub const CONFLICTING_UPDATE_OPERATORS: i32 = 40;
    pub const CURSOR_NOT_FOUND: i32 = 43;
    pub const NAMESPACE_EXISTS: i32 = 48;
    pub const MAX_TIME_MS_EXPIRED: i32 = 50;
    pub const DOLLAR_PREFIXED_FIELD_NAME: i32 = 52;
    pub const INVALID_ID_FIELD: i32 = 53;
    pub const NOT_SINGLE_VALUE_FIELD: i32 = 54;
    pub const EMPTY_FIELD_NAME: i32 = 56;
    pub const IMMUTABLE_FIELD: i32 = 66;
    pub const CANNOT_CREATE_INDEX: i32 = 67;
    pub const INVALID_OPTIONS: i32 = 72;
    pub const INVALID_NAMESPACE: i32 = 73;
    pub const INDEX_OPTIONS_CONFLICT: i32 = 85;
    pub const INDEX_KEY_SPECS_CONFLICT: i32 = 86;
    pub const OPERATION_FAILED: i32 = 96;
    pub const NOT_EXACT_VALUE_FIELD: i32 = 111;
    pub const WRITE_CONFLICT: i32 = 112;
    pub const DOCUMENT_VALIDATION_FAILURE: i32 = 121;
    pub const COMMAND_FAILED: i32 = 125;
    pub const CAPPED_POSITION_LOST: i32 = 136;
    pub const DURATION_OVERFLOW: i32 = 159;
    pub const COMMAND_NOT_SUPPORTED_ON_VIEW: i32 = 166;
    pub const INVALID_PIPELINE_OPERATOR: i32 = 168;
    pub const QUERY_PLAN_KILLED: i32 = 175;
    /// An index build that stopped because the index or its collection was dropped.
    pub const INDEX_BUILD_ABORTED: i32 = 276;
    pub const MAX_SUB_PIPELINE_DEPTH_EXCEEDED: i32 = 232;
    pub const QUERY_FEATURE_NOT_ALLOWED: i32 = 224;
    pub const EXCEEDED_MEMORY_LIMIT: i32 = 146;
    pub const QUERY_EXCEEDED_MEMORY_LIMIT: i32 = 292;
    pub const TRANSACTION_TOO_OLD: i32 = 225;
    pub const NOT_IMPLEMENTED: i32 = 238;
    pub const CONVERSION_FAILURE: i32 = 241;
    pub const NO_QUERY_EXECUTION_PLANS: i32 = 291;
    pub const BSON_OBJECT_TOO_LARGE: i32 = 10334;
    pub const OUT_OF_DISK_SPACE: i32 = 14031;
    pub const MERGE_STAGE_NO_MATCHING_DOCUMENT: i32 = 13113;
    pub const DUPLICATE_KEY: i32 = 11000;
    pub const INTERRUPTED: i32 = 11601;
    pub const SEARCH_NOT_ENABLED: i32 = 31082;
}
