//! The difference between two versions of a document, as change streams describe an update.

use diwan_value::{Array, Doc, DocBuf, DocBuilder, RawValue, Value};
use std::collections::{HashMap, HashSet};

/// Arrays of which more than this share of elements differ are set as a whole.
const WHOLE_ARRAY_SHARE: usize = 2;

/// The parts of a description, while it is made.
#[derive(Default)]
struct Description {
    updated: DocBuilder,
    removed: Vec<String>,
    truncated: Vec<(String, i32)>,
    /// Paths with a field whose name is a number or contains a dot, and their parts.
    ambiguous: Vec<(String, Vec<Part>)>,
}

/// A part of a path.
#[derive(Clone)]
enum Part {
    Field(String),
    Element(i32),
}

/// Describes the update from `old` to `new` as `{updatedFields, removedFields, truncatedArrays, disambiguatedPaths}`.
pub(super) fn describe(old: Doc<'_>, new: Doc<'_>) -> DocBuf {
    let mut description = Description::default();
    let mut path = Vec::new();
    documents(old, new, &mut path, &mut description);
    let mut out = DocBuilder::new();
    out.append("updatedFields", description.updated.finish());
    out.begin_array("removedFields");
    for (at, path) in description.removed.iter().enumerate() {
        out.append_indexed(at, path.as_str());
    }
    out.end().begin_array("truncatedArrays");
    for (at, (field, size)) in description.truncated.iter().enumerate() {
        let mut array = DocBuilder::new();
        array.append("field", field.as_str()).append("newSize", *size);
        out.append_indexed(at, array.finish().as_doc());
    }
    out.end().begin_document("disambiguatedPaths");
    for (path, parts) in &description.ambiguous {
        out.begin_array(path);
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Field(name) => out.append_indexed(at, name.as_str()),
                Part::Element(index) => out.append_indexed(at, *index),
            };
        }
        out.end();
    }
    out.end();
    out.finish()
}

fn documents(old: Doc<'_>, new: Doc<'_>, path: &mut Vec<Part>, out: &mut Description) {
    let before: HashMap<&[u8], RawValue<'_>> = old.iter().map(|element| (element.key, element.raw)).collect();
    for element in new.iter() {
        path.push(Part::Field(element.key_str().to_owned()));
        match before.get(element.key) {
            Some(value) => values(*value, element.raw, path, out),
            None => out.set(path, element.value()),
        }
        path.pop();
    }
    let after: HashSet<&[u8]> = new.iter().map(|element| element.key).collect();
    for element in old.iter().filter(|element| !after.contains(element.key)) {
        path.push(Part::Field(element.key_str().to_owned()));
        let joined = out.join(path);
        out.removed.push(joined);
        path.pop();
    }
}

fn values(old: RawValue<'_>, new: RawValue<'_>, path: &mut Vec<Part>, out: &mut Description) {
    if old == new {
        return;
    }
    match (old.decode().unwrap_or(Value::Null), new.decode().unwrap_or(Value::Null)) {
        (Value::Document(old), Value::Document(new)) => documents(old, new, path, out),
        (Value::Array(old), Value::Array(new)) => arrays(old, new, path, out),
        (_, new) => out.set(path, new),
    }
}

fn arrays(old: Array<'_>, new: Array<'_>, path: &mut Vec<Part>, out: &mut Description) {
    let (before, after): (Vec<RawValue<'_>>, Vec<RawValue<'_>>) = (
        old.elements().map(|element| element.raw).collect(),
        new.elements().map(|element| element.raw).collect(),
    );
    let differing = before.iter().zip(&after).filter(|(old, new)| old != new).count()
        + after.len().saturating_sub(before.len());
    if after.is_empty() || differing * WHOLE_ARRAY_SHARE > after.len().max(2) {
        return out.set(path, Value::Array(new));
    }
    if after.len() < before.len() {
        let joined = out.join(path);
        out.truncated.push((joined, after.len() as i32));
    }
    for (at, value) in after.iter().enumerate() {
        path.push(Part::Element(at as i32));
        match before.get(at) {
            Some(old) => values(*old, *value, path, out),
            None => out.set(path, value.decode().unwrap_or(Value::Null)),
        }
        path.pop();
    }
}

impl Description {
    fn set(&mut self, path: &[Part], value: Value<'_>) {
        let joined = self.join(path);
        self.updated.append(&joined, value);
    }

    /// The path with dots. Notes paths that could be read in two ways.
    fn join(&mut self, path: &[Part]) -> String {
        let mut joined = String::new();
        let mut ambiguous = false;
        for (depth, part) in path.iter().enumerate() {
            if depth > 0 {
                joined.push('.');
            }
            match part {
                Part::Field(name) => {
                    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
                    ambiguous |= name.contains('.') || (depth > 0 && is_number);
                    joined.push_str(name);
                }
                Part::Element(index) => joined.push_str(&index.to_string()),
            }
        }
        if ambiguous {
            self.ambiguous.push((joined.clone(), path.to_vec()));
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    fn described(old: DocBuf, new: DocBuf) -> (DocBuf, Vec<String>, usize) {
        let description = describe(old.as_doc(), new.as_doc());
        let doc = description.as_doc();
        let removed = doc.get_array("removedFields").unwrap();
        let removed = removed.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
        let updated = doc.get_doc("updatedFields").unwrap().to_owned();
        (updated, removed, doc.get_array("truncatedArrays").unwrap().count())
    }

    #[test]
    fn fields_that_differ_are_named_by_their_paths() {
        let old = doc! { "_id": 1, "a": 1, "b": doc! { "c": 1, "d": 2 }, "gone": true };
        let new = doc! { "_id": 1, "a": 1, "b": doc! { "c": 3, "d": 2, "e": 4 } };
        let (updated, removed, truncated) = described(old, new);
        assert_eq!(updated, doc! { "b.c": 3, "b.e": 4 });
        assert_eq!((removed, truncated), (vec!["gone".to_owned()], 0));
    }

    #[test]
    fn a_number_that_changes_its_type_is_an_update() {
        let (updated, ..) = described(doc! { "a": 1 }, doc! { "a": 1.0 });
        assert_eq!(updated, doc! { "a": 1.0 });
    }
}
