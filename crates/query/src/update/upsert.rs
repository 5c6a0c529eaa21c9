//! The document that an upsert starts from: the fields that the query fixes by equality.

use super::path::too_deep;
use crate::error::{Error, Result, code};
use crate::filter::{Filter, equality_fields};
use diwan_value::{DocBuf, DocBuilder, MAX_DEPTH, ObjectId, Path, Value};

/// The document of all values that `query` fixes: `_id` first, then the others in path order.
pub(super) fn from_query(query: &Filter) -> Result<DocBuf> {
    let mut fields = fixed_fields(query)?;
    if fields.iter().any(|(path, _)| path.depth() > MAX_DEPTH) {
        return Err(too_deep());
    }
    fields.sort_by_key(|(path, _)| (path.name(0) != "_id", path.as_str()));
    let mut builder = DocBuilder::new();
    write(&fields, 0, &mut builder);
    Ok(builder.finish())
}

/// The document with the `_id` that `query` fixes, if it fixes one.
pub(super) fn id_from_query(query: &Filter) -> Result<DocBuf> {
    let mut builder = DocBuilder::new();
    for (path, value) in fixed_fields(query)?.into_iter().filter(|(path, _)| path.name(0) == "_id") {
        if path.depth() > 1 {
            let text = format!("field at '_id' must be exactly specified, field at sub-path '{path}'found");
            return Err(Error::new(code::NOT_EXACT_VALUE_FIELD, text));
        }
        builder.append("_id", value);
    }
    Ok(builder.finish())
}

fn fixed_fields(query: &Filter) -> Result<Vec<(&Path, Value<'_>)>> {
    if has_expr(query) {
        let text = "$expr is not allowed in the query predicate for an upsert";
        return Err(Error::new(code::QUERY_FEATURE_NOT_ALLOWED, text));
    }
    equality_fields(query)
}

fn has_expr(query: &Filter) -> bool {
    match query {
        Filter::Expr(_) => true,
        Filter::And(conjunction) => conjunction.children().iter().any(has_expr),
        Filter::Or(children) | Filter::Nor(children) => children.iter().any(has_expr),
        _ => false,
    }
}

/// Writes fields whose paths share their first `depth` parts. They are sorted by path.
fn write(fields: &[(&Path, Value<'_>)], depth: usize, builder: &mut DocBuilder) {
    for group in fields.chunk_by(|(a, _), (b, _)| a.name(depth) == b.name(depth)) {
        let Some((path, value)) = group.first() else { continue };
        if path.depth() == depth + 1 {
            builder.append(path.name(depth), *value);
        } else {
            builder.begin_document(path.name(depth));
            write(group, depth + 1, builder);
            builder.end();
        }
    }
}

/// Moves the `_id` to the front, or adds a new one.
pub(super) fn with_id_first(doc: DocBuf) -> DocBuf {
    let view = doc.as_doc();
    if view.iter().next().is_some_and(|first| first.key == b"_id") {
        return doc;
    }
    let mut builder = DocBuilder::with_buffer(Vec::with_capacity(view.as_bytes().len() + 24));
    match view.get_raw("_id") {
        Some(id) => {
            builder.append_raw(b"_id", id);
            let mut moved = false;
            for element in view.iter() {
                // A second `_id` stays; the store rejects such a document.
                if element.key != b"_id" || std::mem::replace(&mut moved, true) {
                    builder.append_element(element);
                }
            }
        }
        None => {
            builder.append("_id", ObjectId::generate());
            builder.append_all(view);
        }
    }
    builder.finish()
}
