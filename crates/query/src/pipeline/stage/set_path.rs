//! Sets or removes one value at a dotted path while a document is copied.

use diwan_value::{Append, Doc, DocBuilder, Path, Value};

/// Appends to `out` a copy of `doc` with `value` at `path`, or without the path if `value` is `None`. Missing documents
/// along the path are created, and other values along it, including arrays, are replaced by documents. Fields keep
/// their order, and a new field comes last.
pub(crate) fn set_path(doc: Doc<'_>, path: &Path, value: Option<Value<'_>>, out: Vec<u8>) -> Vec<u8> {
    if path.depth() == 1 {
        return set_field(doc, path.as_str(), value, out);
    }
    let mut builder = DocBuilder::with_buffer(out);
    set(doc, path, 0, value, &mut builder);
    builder.finish_buffer()
}

/// Like [`set_path`] for a single field. The bytes before and after it are copied in one piece each.
fn set_field(doc: Doc<'_>, name: &str, value: Option<Value<'_>>, mut out: Vec<u8>) -> Vec<u8> {
    let bytes = doc.as_bytes();
    let mut at = 4;
    let mut end = 4;
    for element in doc.iter() {
        at = end;
        end = at + 1 + element.key.len() + 1 + element.raw.bytes.len();
        if element.key == name.as_bytes() {
            break;
        }
        at = end;
    }
    let start = out.len();
    out.extend_from_slice(bytes.get(..at).unwrap_or(&[0; 4]));
    if let Some(value) = value {
        out.push(value.tag() as u8);
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        value.write(&mut out);
    }
    out.extend_from_slice(bytes.get(end..).filter(|rest| !rest.is_empty()).unwrap_or(&[0]));
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out
}

/// Appends the fields of `doc` with the rest of `path`, from part `depth` on, set.
fn set(doc: Doc<'_>, path: &Path, depth: usize, value: Option<Value<'_>>, builder: &mut DocBuilder) {
    let name = path.name(depth);
    let mut found = false;
    for element in doc.iter() {
        if found || element.key != name.as_bytes() {
            builder.append_element(element);
            continue;
        }
        found = true;
        match element.value() {
            // Nothing can be removed inside a value that is not a document.
            other if value.is_none() && depth + 1 < path.depth() && other.as_doc().is_none() => {
                builder.append_element(element);
            }
            other => descend(other.as_doc().unwrap_or(Doc::EMPTY), path, depth, value, builder),
        }
    }
    if !found && value.is_some() {
        descend(Doc::EMPTY, path, depth, value, builder);
    }
}

/// Appends the field for part `depth`: the value itself, or the document that contains it.
fn descend(inner: Doc<'_>, path: &Path, depth: usize, value: Option<Value<'_>>, builder: &mut DocBuilder) {
    if depth + 1 < path.depth() {
        builder.begin_document(path.name(depth));
        set(inner, path, depth + 1, value, builder);
        builder.end();
    } else if let Some(value) = value {
        builder.append(path.name(depth), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::{DocBuf, doc};

    #[test]
    fn set_path_sets_and_removes_values() {
        let one = Some(Value::Int32(1));
        let cases = [
            (doc! { "a": 0, "b": 2 }, "a", one, doc! { "a": 1, "b": 2 }),
            (doc! { "b": 2 }, "a", one, doc! { "b": 2, "a": 1 }),
            (doc! { "b": 2 }, "a.c", one, doc! { "b": 2, "a": { "c": 1 } }),
            (doc! { "a": { "b": 2 }, "z": 0 }, "a.c", one, doc! { "a": { "b": 2, "c": 1 }, "z": 0 }),
            (doc! { "a": [1, 2] }, "a.c", one, doc! { "a": { "c": 1 } }),
            (doc! { "a": { "b": 2, "c": 3 } }, "a.c", None, doc! { "a": { "b": 2 } }),
            (doc! { "a": 5 }, "a.c", None, doc! { "a": 5 }),
            (doc! { "a": 5 }, "b", None, doc! { "a": 5 }),
            (doc! { "a": 5, "b": 6, "c": 7 }, "b", None, doc! { "a": 5, "c": 7 }),
            (doc! { "a": 5, "b": 6, "c": 7 }, "c", one, doc! { "a": 5, "b": 6, "c": 1 }),
            (doc! {}, "a", one, doc! { "a": 1 }),
            (doc! {}, "a", None, doc! {}),
        ];
        for (before, path, value, after) in cases {
            let bytes = set_path(before.as_doc(), &Path::new(path), value, Vec::new());
            assert_eq!(DocBuf::trusted(bytes), after, "{before:?} {path}");
        }
    }
}
