//! The store's errors. A case is a variant of its own where a face answers it differently.

use crate::namespace::Namespace;
use crate::transaction::Claimant;
use diwan_kv as kv;
use diwan_query as query;
use diwan_query::display::ShownDoc;
use diwan_value::{DocBuf, doc};
use std::sync::Arc;

/// The result of the store's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A refusal with MongoDB's code and text: bad arguments, bad queries, missing names, exceeded limits.
    #[error("{0}")]
    Query(#[from] query::Error),
    /// A unique index, or `_id`, already holds the key.
    #[error("{}", .0.message())]
    DuplicateKey(Box<DuplicateKey>),
    /// The collection's validator refuses the document.
    #[error("Document failed validation")]
    DocumentValidation {
        /// The reason, in the form of MongoDB's `errInfo`.
        details: DocBuf,
    },
    /// An open transaction has written what the caller wants to write, or a transaction met a later write of somebody else
    /// (MongoDB's `WriteConflict`). Nothing was written.
    #[error("{WRITE_CONFLICT}")]
    Claimed(Arc<Claimant>),
    /// The collection was dropped after the caller looked it up. Another one may have its name by now.
    #[error("collection dropped. ns: {0}")]
    CollectionDropped(Namespace),
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] kv::Error),
    /// A stored record, entry or catalog document cannot be parsed.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
}

/// MongoDB's text of a write conflict.
const WRITE_CONFLICT: &str = "Caused by :: Write conflict during plan execution and yielding is disabled. :: Please \
                              retry your operation or multi-document transaction.";

/// The key that another document holds.
#[derive(Clone, Debug)]
pub struct DuplicateKey {
    /// The collection, as `database.collection`.
    pub namespace: String,
    /// The index's name.
    pub index: String,
    /// The index's key pattern.
    pub key_pattern: DocBuf,
    /// The values of the key's fields.
    pub key_value: DocBuf,
}

impl DuplicateKey {
    /// MongoDB's message, which clients parse.
    pub fn message(&self) -> String {
        format!(
            "E11000 duplicate key error collection: {} index: {} dup key: {}",
            self.namespace,
            self.index,
            ShownDoc(self.key_value.as_doc())
        )
    }

    /// The fields that drivers read beside the message.
    pub fn details(&self) -> DocBuf {
        doc! { "keyPattern": &self.key_pattern, "keyValue": &self.key_value }
    }
}

impl Error {
    /// An error with a code and text of MongoDB's.
    pub fn refused(code: i32, message: impl Into<String>) -> Error {
        Error::Query(query::Error::new(code, message))
    }

    /// Whether the file system has no space for the operation's writes.
    pub fn is_out_of_space(&self) -> bool {
        match self {
            Error::Engine(error) => error.is_out_of_space(),
            Error::Query(error) => error.code == query::code::OUT_OF_DISK_SPACE,
            _ => false,
        }
    }

    /// MongoDB's error `WriteConflict`.
    pub(crate) fn write_conflict() -> Error {
        Error::refused(query::code::WRITE_CONFLICT, WRITE_CONFLICT)
    }

    /// MongoDB's error `NamespaceNotFound`.
    pub(crate) fn namespace_not_found(message: impl Into<String>) -> Error {
        Error::refused(query::code::NAMESPACE_NOT_FOUND, message)
    }
}
