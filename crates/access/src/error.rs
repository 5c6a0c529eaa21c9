//! Errors of the register, with MongoDB's codes. A face that has other codes translates the kind.

use diwan_query::code;

/// The result of the register's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the register.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request that is refused, with MongoDB's code.
    #[error("{message}")]
    Refused {
        /// MongoDB's code.
        code: i32,
        /// The reason.
        message: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] diwan_store::Error),
}

/// MongoDB's codes that only the register uses.
pub mod codes {
    /// `UserNotFound`.
    pub const USER_NOT_FOUND: i32 = 11;
    /// `Unauthorized`.
    pub const UNAUTHORIZED: i32 = 13;
    /// `AuthenticationFailed`.
    pub const AUTHENTICATION_FAILED: i32 = 18;
    /// `RoleNotFound`.
    pub const ROLE_NOT_FOUND: i32 = 31;
    /// `InvalidRoleModification`.
    pub const INVALID_ROLE_MODIFICATION: i32 = 128;
    /// A server that has too much to do. (`ExceededMemoryLimit` and the like are about single requests.)
    pub const BUSY: i32 = 202;
    /// A user exists already.
    pub const USER_EXISTS: i32 = 51003;
    /// A role exists already.
    pub const ROLE_EXISTS: i32 = 51002;
}

impl Error {
    /// A refusal.
    pub fn refused(code: i32, message: impl Into<String>) -> Error {
        Error::Refused { code, message: message.into() }
    }

    /// A bad argument.
    pub fn bad_value(message: impl Into<String>) -> Error {
        Error::refused(code::BAD_VALUE, message)
    }

    /// Text that does not parse.
    pub fn failed_to_parse(message: impl Into<String>) -> Error {
        Error::refused(code::FAILED_TO_PARSE, message)
    }

    /// MongoDB's code, if the register itself refused.
    pub fn code(&self) -> Option<i32> {
        match self {
            Error::Refused { code, .. } => Some(*code),
            Error::Store(_) => None,
        }
    }
}
