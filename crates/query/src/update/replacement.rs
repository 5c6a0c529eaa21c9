//! Replacement documents, which replace everything except the `_id`.

use crate::display::ShownField;
use crate::error::{Error, Result, code};
use crate::expr::Context;
use diwan_value::{Doc, DocBuf, DocBuilder, Timestamp, Type, Value, compare};

/// Checks a replacement's top-level names.
pub(super) fn check(replacement: Doc<'_>) -> Result<()> {
    replacement.iter().try_for_each(|element| check_top_level_name(element.key_str()))
}

/// Rejects a top-level field whose name looks like an operator.
pub(super) fn check_top_level_name(name: &str) -> Result<()> {
    if !name.starts_with('$') {
        return Ok(());
    }
    let text = format!(
        "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an update's \
         replacement document. Consider using an aggregation pipeline with $replaceWith."
    );
    Err(Error::new(code::DOLLAR_PREFIXED_FIELD_NAME, text))
}

/// The document that replaces `doc`; `None` if it is identical. Top-level timestamps of zero become `timestamp`, if
/// there is one.
pub(super) fn apply(
    replacement: Doc<'_>,
    doc: Doc<'_>,
    timestamp: Option<Timestamp>,
) -> Result<Option<DocBuf>> {
    if replacement == doc {
        return Ok(None);
    }
    let old_id = doc.get_raw("_id");
    let new_id = replacement.get_raw("_id");
    let mut out = DocBuilder::with_buffer(Vec::with_capacity(replacement.as_bytes().len() + 24));
    if let Some(id) = new_id.or(old_id) {
        if let (Some(old), Some(new)) = (old_id.and_then(|id| id.decode()), new_id.and_then(|id| id.decode()))
            && compare(old, new).is_ne()
        {
            let text = format!(
                "After applying the update, the (immutable) field '_id' was found to have been altered to {}",
                ShownField("_id", new)
            );
            return Err(Error::new(code::IMMUTABLE_FIELD, text));
        }
        out.append_raw(b"_id", id);
    }
    let mut id_seen = false;
    for element in replacement {
        if element.key == b"_id" && !id_seen {
            id_seen = true;
        } else if let Some(now) = timestamp
            && element.raw.tag == Type::Timestamp
            && element.raw.bytes == [0; 8]
        {
            out.append(element.key_str(), now);
        } else {
            out.append_element(element);
        }
    }
    Ok(Some(out.finish()))
}

/// The timestamp of the operation.
pub(super) fn timestamp(context: &Context) -> Timestamp {
    context.cluster_time.unwrap_or_else(|| Timestamp {
        seconds: u32::try_from(context.now / 1000).unwrap_or_default(),
        increment: 1,
    })
}

/// Checks that `id` can be a document's `_id`.
pub(crate) fn check_id(id: Value<'_>) -> Result<()> {
    match id {
        Value::Array(_) | Value::Regex { .. } | Value::Undefined => {
            let text = format!("The '_id' value cannot be of type {}", id.tag().alias());
            Err(Error::new(code::INVALID_ID_FIELD, text))
        }
        Value::Document(doc) => {
            match doc.iter().map(|element| element.key_str()).find(|key| key.starts_with('$')) {
                Some(key) => {
                    let text = format!(
                        "_id fields may not contain '$'-prefixed fields: '{key}' in '_id.{key}' is not allowed"
                    );
                    Err(Error::new(code::DOLLAR_PREFIXED_FIELD_NAME, text))
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}
