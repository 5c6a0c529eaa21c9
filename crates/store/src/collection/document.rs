//! The checks of a document before it is stored, and the key bytes of its `_id`.

use super::Schema;
use crate::error::{Error, Result};
use crate::options::ValidationLevel;
use diwan_query::code;
use diwan_value::{Doc, DocBuf, DocBuilder, Element, MAX_DOCUMENT_BYTES, ObjectId, Timestamp, Type, Value};

/// A checked document whose first field is its `_id`.
pub(super) struct Prepared<'a> {
    borrowed: Doc<'a>,
    rebuilt: Option<DocBuf>,
    pub id: Vec<u8>,
}

impl Prepared<'_> {
    pub fn doc(&self) -> Doc<'_> {
        self.rebuilt.as_ref().map_or(self.borrowed, DocBuf::as_doc)
    }
}

/// Checks a document for an insert. Adds an `_id` if it has none. `timestamps` gives the values that replace its
/// top-level timestamps of zero.
pub(super) fn prepare<'a>(doc: Doc<'a>, timestamps: Option<&dyn Fn() -> Timestamp>) -> Result<Prepared<'a>> {
    check_document(doc)?;
    let first_is_id = doc.iter().next().is_some_and(|element| element.key == b"_id");
    let timestamps = timestamps.filter(|_| doc.iter().any(|element| is_zero_timestamp(&element)));
    let rebuilt = (!first_is_id || timestamps.is_some()).then(|| rebuild(doc, timestamps));
    let id = match &rebuilt {
        Some(rebuilt) => document_id(rebuilt.as_doc())?,
        None => document_id(doc)?,
    };
    Ok(Prepared { borrowed: doc, rebuilt, id })
}

/// Refuses a document that no collection accepts.
pub fn check_insert(doc: Doc<'_>) -> Result<()> {
    check_document(doc)?;
    doc.get("_id").map_or(Ok(()), |id| id_key(id).map(drop))
}

/// The document with its `_id` as the first field. A document without an `_id` gets a new one.
pub(crate) fn with_id_in_front(doc: Doc<'_>) -> DocBuf {
    rebuild(doc, None)
}

fn is_zero_timestamp(element: &Element<'_>) -> bool {
    element.raw.tag == Type::Timestamp && element.raw.bytes == [0; 8]
}

fn rebuild(doc: Doc<'_>, timestamps: Option<&dyn Fn() -> Timestamp>) -> DocBuf {
    let mut out = DocBuilder::with_buffer(Vec::with_capacity(doc.as_bytes().len() + 17));
    match doc.get_raw("_id") {
        Some(id) => out.append_raw(b"_id", id),
        None => out.append("_id", ObjectId::generate()),
    };
    let mut seen = false;
    for element in doc.iter() {
        if element.key == b"_id" && !std::mem::replace(&mut seen, true) {
            continue;
        }
        match timestamps {
            Some(next) if is_zero_timestamp(&element) => out.append(element.key_str(), next()),
            _ => out.append_element(element),
        };
    }
    out.finish()
}

/// The key bytes of a document's `_id`.
pub(crate) fn document_id(doc: Doc<'_>) -> Result<Vec<u8>> {
    match doc.get("_id") {
        Some(value) => id_key(value),
        None => Err(Error::refused(code::INVALID_ID_FIELD, "the document has no _id")),
    }
}

/// The longest `_id` in key bytes.
const MAX_ID_BYTES: usize = 16 * 1024;

/// The key bytes of an `_id`.
pub fn id_key(value: Value<'_>) -> Result<Vec<u8>> {
    let kind = match value {
        Value::Array(_) => "array",
        Value::Regex { .. } => "regex",
        Value::Undefined => "undefined",
        _ => "",
    };
    if !kind.is_empty() {
        return Err(Error::refused(
            code::INVALID_ID_FIELD,
            format!("The '_id' value cannot be of type {kind}"),
        ));
    }
    let mut out = Vec::with_capacity(16);
    diwan_value::key::encode_order(&mut out, value, diwan_value::key::Direction::Ascending, None);
    if out.len() > MAX_ID_BYTES {
        return Err(Error::refused(
            code::BAD_VALUE,
            format!("The '_id' value takes {} bytes as a key; at most {MAX_ID_BYTES} are allowed", out.len()),
        ));
    }
    Ok(out)
}

/// Refuses a document that must not be stored, whichever face it comes from.
pub(super) fn check_document(doc: Doc<'_>) -> Result<()> {
    let size = doc.as_bytes().len();
    if size > MAX_DOCUMENT_BYTES {
        return Err(Error::refused(
            code::BSON_OBJECT_TOO_LARGE,
            format!(
                "BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and {MAX_DOCUMENT_BYTES}(16MB)"
            ),
        ));
    }
    let mut has_id = false;
    for element in doc.iter() {
        // Lookups use a document's first `_id`. A second one would be visible, but no query would find the document by
        // it.
        if element.key == b"_id" && std::mem::replace(&mut has_id, true) {
            let text = "can't have multiple _id fields in one document";
            return Err(Error::refused(code::BAD_VALUE, text));
        }
        if element.key.first() == Some(&b'$') {
            return Err(Error::refused(
                code::DOLLAR_PREFIXED_FIELD_NAME,
                format!(
                    "The dollar ($) prefixed field '{0}' in '{0}' is not valid for storage.",
                    element.key_str()
                ),
            ));
        }
        if element.key == b"_id"
            && let Value::Document(id) = element.value()
            && let Some(bad) = id.iter().find(|inner| inner.key.first() == Some(&b'$'))
            && !matches!(bad.key, b"$id" | b"$ref" | b"$db")
        {
            return Err(Error::refused(
                code::DOLLAR_PREFIXED_FIELD_NAME,
                format!(
                    "_id fields may not contain '$'-prefixed fields: {} is not valid for storage.",
                    bad.key_str()
                ),
            ));
        }
    }
    Ok(())
}

/// Refuses a document that does not match the validator, as the collection's validation level and action say. `old` is
/// the document that it replaces.
pub(super) fn check_validator(schema: &Schema, doc: Doc<'_>, old: Option<Doc<'_>>) -> Result<()> {
    let options = &schema.options;
    let Some(validator) = &options.validator else { return Ok(()) };
    if options.validation_level == ValidationLevel::Off || validator.matches(doc)? {
        return Ok(());
    }
    if options.validation_level == ValidationLevel::Moderate
        && let Some(old) = old
        && !validator.matches(old)?
    {
        return Ok(());
    }
    let details = diwan_value::doc! {
        "failingDocumentId": doc.get("_id").unwrap_or(Value::Null),
        "details": validator.explain_mismatch(doc)?
    };
    if !options.validation_refuses {
        tracing::warn!(details = ?details.as_doc(), "document would fail validation");
        return Ok(());
    }
    Err(Error::DocumentValidation { details })
}
