//! Errors of commands: MongoDB's code, text and labels, and further fields of the reply.
//!
//! All errors of the lower layers are converted in this file.

mod codes;

pub(crate) use codes::{code, name};

use diwan_value::{Doc, DocBuf, DocBuilder};
use std::fmt;

/// The result of a command's function. The reply itself is written to a builder.
pub(crate) type Result<T> = std::result::Result<T, CommandError>;

/// Why a command failed.
#[derive(Clone, Debug)]
pub(crate) struct CommandError {
    /// MongoDB's code.
    pub code: i32,
    /// The error text.
    pub message: String,
    /// Further fields, such as `keyPattern` and `keyValue` of a duplicate key, or `errInfo`.
    pub details: Option<DocBuf>,
    /// Whether the command had begun to write. Then the reply also reports a write concern that cannot be satisfied.
    pub has_begun: bool,
}

impl CommandError {
    /// An error without further fields.
    pub(crate) fn new(code: i32, message: impl Into<String>) -> CommandError {
        CommandError { code, message: message.into(), details: None, has_begun: false }
    }

    /// Adds what the command was doing before the text, as MongoDB does.
    pub(crate) fn in_context(self, doing: impl fmt::Display) -> CommandError {
        CommandError { message: format!("{doing} :: caused by :: {}", self.message), ..self }
    }

    /// Marks the error as one of a command that had begun to write.
    pub(crate) fn having_begun(self) -> CommandError {
        CommandError { has_begun: true, ..self }
    }

    /// `BadValue`.
    pub(crate) fn bad_value(message: impl Into<String>) -> CommandError {
        CommandError::new(code::BAD_VALUE, message)
    }

    /// `NotImplemented`, for a feature of MongoDB that this server does not have.
    pub(crate) fn not_implemented(what: impl fmt::Display) -> CommandError {
        CommandError::new(code::NOT_IMPLEMENTED, format!("{what} is not implemented"))
    }

    /// The further fields.
    fn details(&self) -> Doc<'_> {
        self.details.as_ref().map_or(Doc::EMPTY, DocBuf::as_doc)
    }

    /// Writes the error fields of the reply to a failed command.
    pub(crate) fn write(&self, labels: &[&str], reply: &mut DocBuilder) {
        if !labels.is_empty() {
            reply.append("errorLabels", labels.to_vec());
        }
        reply.append("ok", 0.0).append("errmsg", self.message.as_str());
        reply.append("code", self.code).append("codeName", name(self.code));
        reply.append_all(self.details());
    }

    /// Writes the fields of one element of `writeErrors`.
    pub(crate) fn write_write_error(&self, index: usize, out: &mut DocBuilder) {
        out.append("index", i32::try_from(index).unwrap_or(i32::MAX)).append("code", self.code);
        out.append_all(self.details());
        out.append("errmsg", self.message.as_str());
    }

    /// The error labels, which tell drivers whether to retry.
    pub(crate) fn labels(&self, by: LabelledBy) -> &'static [&'static str] {
        let (is_retryable, is_transient) =
            (code::RETRYABLE.contains(&self.code), code::TRANSIENT.contains(&self.code));
        match by {
            LabelledBy::RetryableWrite if is_retryable => &["RetryableWriteError"],
            LabelledBy::EndOfTransaction if is_retryable => &["RetryableWriteError"],
            LabelledBy::EndOfTransaction if is_transient => &["TransientTransactionError"],
            LabelledBy::Statement if is_transient || is_retryable => &["TransientTransactionError"],
            _ => &[],
        }
    }
}

/// What kind of command an error's labels are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelledBy {
    /// One that is not retried.
    Nothing,
    /// A retryable write.
    RetryableWrite,
    /// A statement of a transaction.
    Statement,
    /// A commit or an abort.
    EndOfTransaction,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, name(self.code))
    }
}

impl From<diwan_query::Error> for CommandError {
    fn from(error: diwan_query::Error) -> CommandError {
        let message = match error.code {
            // MongoDB's text, which old drivers compare.
            code::NOT_WRITABLE_PRIMARY => "not primary".to_owned(),
            _ => error.message,
        };
        CommandError {
            details: error.details.map(|details| *details),
            ..CommandError::new(error.code, message)
        }
    }
}

impl From<diwan_store::Error> for CommandError {
    fn from(error: diwan_store::Error) -> CommandError {
        use diwan_store::Error;
        match error {
            Error::Query(error) => error.into(),
            Error::Engine(error) => error.into(),
            Error::DuplicateKey(key) => CommandError {
                details: Some(key.details()),
                ..CommandError::new(diwan_query::code::DUPLICATE_KEY, key.message())
            },
            Error::DocumentValidation { details } => {
                let mut info = DocBuilder::new();
                info.append("errInfo", details);
                let text = "Document failed validation";
                CommandError {
                    details: Some(info.finish()),
                    ..CommandError::new(diwan_query::code::DOCUMENT_VALIDATION_FAILURE, text)
                }
            }
            Error::Claimed(_) => CommandError::new(diwan_query::code::WRITE_CONFLICT, error.to_string()),
            Error::CollectionDropped(_) => {
                CommandError::new(diwan_query::code::QUERY_PLAN_KILLED, error.to_string())
            }
            Error::Damaged(_) => CommandError::new(code::DATA_CORRUPTION_DETECTED, error.to_string()),
        }
    }
}

impl From<diwan_access::Error> for CommandError {
    fn from(error: diwan_access::Error) -> CommandError {
        match error {
            diwan_access::Error::Refused { code, message } => CommandError::new(code, message),
            diwan_access::Error::Store(error) => error.into(),
        }
    }
}

impl From<diwan_kv::Error> for CommandError {
    fn from(error: diwan_kv::Error) -> CommandError {
        let code = match &error {
            full if full.is_out_of_space() => diwan_query::code::OUT_OF_DISK_SPACE,
            away if away.is_unreachable() => code::HOST_UNREACHABLE,
            refused if refused.is_read_only() => code::NOT_WRITABLE_PRIMARY,
            diwan_kv::Error::Conflict(_) => diwan_query::code::WRITE_CONFLICT,
            diwan_kv::Error::KeyLength(_) => diwan_query::code::CANNOT_CREATE_INDEX,
            diwan_kv::Error::Closed => code::INTERRUPTED_AT_SHUTDOWN,
            diwan_kv::Error::Damaged(_) => code::DATA_CORRUPTION_DETECTED,
            _ => code::OPERATION_FAILED,
        };
        CommandError::new(code, error.to_string())
    }
}
