//! What the store refuses, split where a face answers differently.

use crate::namespace::Namespace;
use diwan_kv as kv;
use diwan_query as query;
use diwan_query::display::ShownDoc;
use diwan_value::{DocBuf, doc};

/// What the store's operations return.
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
        /// Why, as MongoDB's `errInfo` tells it.
        details: DocBuf,
    },
    /// The collection was dropped after it was looked up. Under its name there may be another one by now.
    #[error("collection dropped. ns: {0}")]
    CollectionDropped(Namespace),
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] kv::Error),
    /// A stored record, entry or catalog document does not read as one.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
}

/// Which key was there already.
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

    /// The fields beside it that drivers read.
    pub fn details(&self) -> DocBuf {
        doc! { "keyPattern": &self.key_pattern, "keyValue": &self.key_value }
    }
}

impl Error {
    /// A refusal of any code.
    pub fn refused(code: i32, message: impl Into<String>) -> Error {
        Error::Query(query::Error::new(code, message))
    }

    /// Whether the file system has no room for what the operation would write.
    pub fn is_out_of_space(&self) -> bool {
        match self {
            Error::Engine(error) => error.is_out_of_space(),
            Error::Query(error) => error.code == query::code::OUT_OF_DISK_SPACE,
            _ => false,
        }
    }

    /// `NamespaceNotFound`.
    pub fn namespace_not_found(message: impl Into<String>) -> Error {
        Error::refused(query::code::NAMESPACE_NOT_FOUND, message)
    }
}
