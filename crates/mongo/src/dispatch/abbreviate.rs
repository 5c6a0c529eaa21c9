//! Commands and statements in short, as `currentOp` and the profiler show them.

use diwan_value::{Doc, DocBuf, DocBuilder, Value};

/// The longest command, or part of a statement, that is shown in full.
const SHOWN_BYTES: usize = 1024;

/// The longest field of a longer command that is still shown.
const SHOWN_FIELD_BYTES: usize = 256;

/// A command without its long fields, if it is long.
pub(crate) fn abbreviated_command(body: Doc<'_>) -> DocBuf {
    if body.as_bytes().len() <= SHOWN_BYTES {
        return body.to_owned();
    }
    let mut short = DocBuilder::new();
    for element in body.iter().filter(|element| element.raw.bytes.len() <= SHOWN_FIELD_BYTES) {
        short.append_element(element);
    }
    short.append("$truncated", true);
    short.finish()
}

/// A statement without its long parts.
pub(crate) fn abbreviated_statement(fields: &[(&str, Option<Value<'_>>)]) -> DocBuf {
    let length = |value: Value<'_>| match value {
        Value::Document(doc) => doc.as_bytes().len(),
        Value::Array(array) => array.as_bytes().len(),
        _ => 0,
    };
    let mut out = DocBuilder::new();
    let mut is_cut = false;
    for (name, value) in fields.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
        match length(value) <= SHOWN_BYTES {
            true => {
                out.append(name, value);
            }
            false => is_cut = true,
        }
    }
    if is_cut {
        out.append("$truncated", true);
    }
    out.finish()
}
