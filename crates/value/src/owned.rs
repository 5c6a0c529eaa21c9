//! Values that own their bytes.

use crate::builder::DocBuilder;
use crate::element::{RawValue, Type};
use crate::validate::{self, ValidationError};
use crate::view::{Doc, Value};
use std::fmt;

/// A document that owns its BSON bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct DocBuf(Vec<u8>);

impl DocBuf {
    /// The document `{}`.
    pub fn new() -> DocBuf {
        Doc::EMPTY.to_owned()
    }

    /// Takes untrusted bytes after validating all of them.
    pub fn validate(bytes: Vec<u8>) -> Result<DocBuf, ValidationError> {
        validate::document(&bytes)?;
        Ok(DocBuf(bytes))
    }

    /// Takes bytes that were validated before or were just built.
    pub fn trusted(bytes: Vec<u8>) -> DocBuf {
        DocBuf(bytes)
    }

    /// A view of the document.
    pub fn as_doc(&self) -> Doc<'_> {
        Doc::trusted(&self.0)
    }

    /// The document's bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// A builder that appends to this document.
    pub fn into_builder(self) -> DocBuilder {
        DocBuilder::reopen(self.0)
    }
}

impl Default for DocBuf {
    fn default() -> DocBuf {
        DocBuf::new()
    }
}

impl fmt::Debug for DocBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_doc().fmt(f)
    }
}

/// A value of any type that owns its bytes, laid out as in a document after the key.
#[derive(Clone, PartialEq, Eq)]
pub struct ValueBuf {
    tag: Type,
    bytes: Vec<u8>,
}

impl ValueBuf {
    /// Copies a value.
    pub fn new(value: Value<'_>) -> ValueBuf {
        let mut bytes = Vec::new();
        crate::builder::write_value(&mut bytes, value);
        ValueBuf { tag: value.tag(), bytes }
    }

    /// Takes bytes that were just built, laid out as in a document after the key.
    pub(crate) fn trusted(tag: Type, bytes: Vec<u8>) -> ValueBuf {
        ValueBuf { tag, bytes }
    }

    /// The value's type and bytes.
    pub fn as_raw(&self) -> RawValue<'_> {
        RawValue { tag: self.tag, bytes: &self.bytes }
    }

    /// A view of the value.
    pub fn as_value(&self) -> Value<'_> {
        RawValue { tag: self.tag, bytes: &self.bytes }.decode().unwrap_or(Value::Null)
    }
}

impl From<Value<'_>> for ValueBuf {
    fn from(value: Value<'_>) -> ValueBuf {
        ValueBuf::new(value)
    }
}

impl From<DocBuf> for ValueBuf {
    fn from(doc: DocBuf) -> ValueBuf {
        ValueBuf { tag: Type::Document, bytes: doc.into_bytes() }
    }
}

impl fmt::Debug for ValueBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_value().fmt(f)
    }
}
