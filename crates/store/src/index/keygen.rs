//! Key generation: the entries of a document in an index.
//!
//! An array on a field's path gives an entry for each of its elements. The fields of a compound index may share one
//! array, but their paths may not cross two (`cannot index parallel arrays`).

use crate::error::{Error, Result};
use crate::index::spec::{FieldOrder, IndexField, IndexKind, IndexSpec, MAX_FIELDS};
use diwan_query::sort::refuse_ambiguous;
use diwan_value::key::{self, Direction};
use diwan_value::{Doc, DocBuf, DocBuilder, Path, Value, hash_value};

/// A document's entries in one index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexKeys {
    /// Key bytes, sorted and without repeats, each with the type bytes that restore the exact values.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// The multikey bits. The low half has a bit for each field of the key with an array in it. The high half has a bit
    /// for each field with a value that CouchDB orders differently among other values than BSON.
    pub multikey: u64,
}

impl IndexKeys {
    /// Whether there is an entry with these key bytes.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.types_of(key).is_some()
    }

    /// The type bytes of the entry with these key bytes.
    pub(crate) fn types_of(&self, key: &[u8]) -> Option<&[u8]> {
        let at = self.entries.binary_search_by(|(other, _)| other.as_slice().cmp(key)).ok()?;
        Some(&self.entries[at].1)
    }

    fn push(&mut self, key: Vec<u8>, types: key::Types) {
        self.entries.push((key, types.as_bytes().to_vec()));
    }

    fn finish(mut self) -> IndexKeys {
        if self.entries.len() > 1 {
            self.entries.sort_unstable();
            self.entries.dedup_by(|a, b| a.0 == b.0);
        }
        self
    }
}

/// The entries of `doc` in the index that `spec` describes.
pub(super) fn keys_of(spec: &IndexSpec, doc: Doc<'_>) -> Result<IndexKeys> {
    if let Some(filter) = &spec.partial_filter
        && !filter.matches(doc)?
    {
        return Ok(IndexKeys::default());
    }
    if spec.fields.iter().any(|field| field.order == FieldOrder::Hashed) {
        refuse_arrays(spec, doc)?;
    }
    let keys = match spec.kind {
        IndexKind::Wildcard => wildcard_keys(spec, doc)?,
        IndexKind::Ordinary if spec.fields.len() == 1 && spec.fields[0].path.depth() == 1 => {
            single_keys(spec, doc)?
        }
        IndexKind::Ordinary => compound_keys(spec, doc)?,
    };
    Ok(keys.finish())
}

/// The document's values of the entry with these key bytes, under the names of the key's fields. They are taken from
/// the document, since under a collation the bytes do not restore them.
pub(super) fn key_value(spec: &IndexSpec, doc: Doc<'_>, key: &[u8]) -> Result<DocBuf> {
    let mut uncollated = spec.clone();
    uncollated.collator = None;
    let directions: Vec<Direction> = spec.fields.iter().map(IndexField::direction).collect();
    let mut shown = DocBuilder::new();
    for (bytes, types) in keys_of(&uncollated, doc)?.entries {
        let Some(values) = key::decode(&bytes, &types, &directions) else { continue };
        let mut collated = Vec::with_capacity(key.len());
        for (value, direction) in values.iter().zip(&directions) {
            key::encode_order(&mut collated, value.as_value(), *direction, spec.collator.as_deref());
        }
        if collated == key {
            for (field, value) in spec.fields.iter().zip(&values) {
                shown.append(field.path.as_str(), value.as_value());
            }
            break;
        }
    }
    Ok(shown.finish())
}

/// Refuses a document with an array on the path of any field. An index with a hashed field has one entry for each
/// document.
fn refuse_arrays(spec: &IndexSpec, doc: Doc<'_>) -> Result<()> {
    for field in &spec.fields {
        let mut value = Value::Document(doc);
        for (at, name) in field.path.names().enumerate() {
            let inner = match value {
                Value::Document(doc) => doc.get(name),
                _ => None,
            };
            let Some(inner) = inner else { break };
            value = inner;
            if let Value::Array(_) = value {
                let path: Vec<&str> = field.path.names().take(at + 1).collect();
                return Err(Error::refused(
                    16766,
                    format!(
                        "Error: hashed indexes do not currently support array values. Found array at path: {}",
                        path.join(".")
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// The keys in an index of one top-level field: the common case, without the general algorithm.
fn single_keys(spec: &IndexSpec, doc: Doc<'_>) -> Result<IndexKeys> {
    let mut keys = IndexKeys::default();
    let value = doc.get(spec.fields[0].path.name(0));
    match value {
        None if spec.sparse => {}
        Some(Value::Array(array)) => {
            keys.multikey |= 1;
            if array.is_empty() {
                push_tuple(spec, &[Value::Undefined], &mut keys)?;
            }
            for value in array.iter() {
                push_tuple(spec, &[value], &mut keys)?;
            }
        }
        value => {
            keys.entries.reserve_exact(1);
            push_tuple(spec, &[value.unwrap_or(Value::Null)], &mut keys)?;
        }
    }
    Ok(keys)
}

/// How far the path of one field of a compound key has been followed.
#[derive(Clone, Copy)]
enum Position<'a> {
    /// The field's value; `None` if the field is missing.
    Found(Option<Value<'a>>),
    /// An array. Its elements are still to be followed from part `next` of the path.
    AtArray { array: diwan_value::Array<'a>, next: usize },
}

fn compound_keys(spec: &IndexSpec, doc: Doc<'_>) -> Result<IndexKeys> {
    let mut keys = IndexKeys::default();
    let positions: Vec<Position<'_>> =
        spec.fields.iter().map(|field| follow(&field.path, 0, Value::Document(doc))).collect();
    expand(spec, positions, &mut keys)?;
    Ok(keys)
}

/// Follows a path from part `next` to its end or to an array.
fn follow<'a>(path: &Path, mut next: usize, mut value: Value<'a>) -> Position<'a> {
    loop {
        match value {
            Value::Array(array) => return Position::AtArray { array, next },
            _ if next == path.depth() => return Position::Found(Some(value)),
            Value::Document(doc) => match doc.get(path.name(next)) {
                Some(inner) => value = inner,
                None => return Position::Found(None),
            },
            _ => return Position::Found(None),
        }
        next += 1;
    }
}

/// Replaces the array that the positions share by each of its elements, recursively, and adds a key for each
/// combination of values.
fn expand(spec: &IndexSpec, mut positions: Vec<Position<'_>>, keys: &mut IndexKeys) -> Result<()> {
    // A numeric part of a path selects one element. This does not make the index multikey.
    for (position, field) in positions.iter_mut().zip(&spec.fields) {
        while let Position::AtArray { array, next } = *position
            && next < field.path.depth()
            && let Some(index) = field.path.index(next)
            && let Some(value) = array.get(index)
        {
            refuse_ambiguous(array, field.path.name(next))?;
            *position = match next + 1 == field.path.depth() {
                // An element that the path names is indexed as a whole, even if it is an array.
                true => Position::Found(Some(value)),
                false => follow(&field.path, next + 1, value),
            };
        }
    }
    let Some(shared) = positions.iter().find_map(|position| match position {
        Position::AtArray { array, .. } => Some(*array),
        Position::Found(_) => None,
    }) else {
        return push_found(spec, &positions, keys);
    };
    for (at, position) in positions.iter().enumerate() {
        if let Position::AtArray { array, .. } = position {
            if array.as_bytes().as_ptr() != shared.as_bytes().as_ptr() {
                return Err(parallel_arrays(spec, &positions));
            }
            keys.multikey |= 1 << at;
        }
    }
    let mut step = |element: Option<Value<'_>>| {
        let inner = positions
            .iter()
            .zip(&spec.fields)
            .map(|(position, field)| match *position {
                Position::AtArray { next, .. } => match element {
                    // An empty array that is the field's value has the key of `undefined`.
                    None => Position::Found((next == field.path.depth()).then_some(Value::Undefined)),
                    Some(element) if next == field.path.depth() => Position::Found(Some(element)),
                    // A name does not enter an array that is directly inside an array.
                    Some(Value::Array(_)) => Position::Found(None),
                    Some(element) => follow(&field.path, next, element),
                },
                found => found,
            })
            .collect();
        expand(spec, inner, keys)
    };
    if shared.is_empty() {
        return step(None);
    }
    shared.iter().try_for_each(|element| step(Some(element)))
}

fn push_found(spec: &IndexSpec, positions: &[Position<'_>], keys: &mut IndexKeys) -> Result<()> {
    let values = positions.iter().map(|position| match position {
        Position::Found(value) => *value,
        Position::AtArray { .. } => None,
    });
    if spec.sparse && values.clone().all(|value| value.is_none()) {
        return Ok(());
    }
    let values: Vec<Value<'_>> = values.map(|value| value.unwrap_or(Value::Null)).collect();
    push_tuple(spec, &values, keys)
}

/// Adds the key of one value for each field.
fn push_tuple(spec: &IndexSpec, values: &[Value<'_>], keys: &mut IndexKeys) -> Result<()> {
    let (mut bytes, mut types) = (Vec::with_capacity(16 * values.len()), key::Types::new());
    for (at, (value, field)) in values.iter().zip(&spec.fields).enumerate() {
        let value = match field.order {
            FieldOrder::Hashed => Value::Int64(hash_value(*value)),
            FieldOrder::Ascending | FieldOrder::Descending => *value,
        };
        if !is_alike(value) {
            keys.multikey |= 1 << (MAX_FIELDS + at);
        }
        key::encode(&mut bytes, &mut types, value, field.direction(), spec.collator.as_deref());
    }
    check_length(spec, &bytes)?;
    keys.push(bytes, types);
    Ok(())
}

/// Whether CouchDB and BSON order such values alike among each other.
fn is_alike(value: Value<'_>) -> bool {
    matches!(value, Value::Null | Value::String(_) | Value::Symbol(_)) || value.is_number()
}

/// The longest key of an index, in bytes. With the document's id it must fit a key of the engine.
const MAX_INDEX_KEY_BYTES: usize = 32 * 1024;

fn check_length(spec: &IndexSpec, bytes: &[u8]) -> Result<()> {
    if bytes.len() > MAX_INDEX_KEY_BYTES {
        return Err(Error::refused(
            17280,
            format!(
                "WiredTigerIndex::insert: key too large to index, failing {} {} > {MAX_INDEX_KEY_BYTES}",
                spec.name,
                bytes.len()
            ),
        ));
    }
    Ok(())
}

fn parallel_arrays(spec: &IndexSpec, positions: &[Position<'_>]) -> Error {
    let mut names = spec
        .fields
        .iter()
        .zip(positions)
        .filter(|(_, position)| matches!(position, Position::AtArray { .. }))
        .map(|(field, _)| field.path.name(field.path.depth() - 1));
    let (first, second) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    Error::refused(171, format!("cannot index parallel arrays [{second}] [{first}]"))
}

/// The keys in a wildcard index: one for every path that the index covers, made of the path and the value.
fn wildcard_keys(spec: &IndexSpec, doc: Doc<'_>) -> Result<IndexKeys> {
    let root = spec.fields[0].path.as_str().trim_end_matches("$**").trim_end_matches('.');
    let mut walk = WildcardWalk { spec, root, keys: IndexKeys::default() };
    walk.document(doc, "")?;
    Ok(walk.keys)
}

/// A recursive walk over the parts of a document that a wildcard index covers.
struct WildcardWalk<'s> {
    spec: &'s IndexSpec,
    /// The path under which the index covers fields.
    root: &'s str,
    keys: IndexKeys,
}

impl WildcardWalk<'_> {
    fn document(&mut self, doc: Doc<'_>, prefix: &str) -> Result<()> {
        for element in doc.iter() {
            let name = element.key_str();
            let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            let leads_there = lies_within(&path, self.root) || lies_within(self.root, &path);
            if leads_there && self.spec.wildcard_covers(&path) {
                self.value(element.value(), &path)?;
            }
        }
        Ok(())
    }

    fn value(&mut self, value: Value<'_>, path: &str) -> Result<()> {
        match value {
            Value::Document(doc) if !doc.is_empty() => self.document(doc, path),
            Value::Array(array) => {
                self.keys.multikey = u64::MAX;
                if array.is_empty() {
                    self.push(path, Value::Undefined)?;
                }
                array.iter().try_for_each(|element| match element {
                    Value::Document(doc) if !doc.is_empty() => self.document(doc, path),
                    other => self.push(path, other),
                })
            }
            value => self.push(path, value),
        }
    }

    fn push(&mut self, path: &str, value: Value<'_>) -> Result<()> {
        if !lies_within(path, self.root) {
            return Ok(());
        }
        let (mut bytes, mut types) = (Vec::new(), key::Types::new());
        key::encode(&mut bytes, &mut types, Value::String(path), Direction::Ascending, None);
        key::encode(&mut bytes, &mut types, value, Direction::Ascending, self.spec.collator.as_deref());
        check_length(self.spec, &bytes)?;
        self.keys.push(bytes, types);
        Ok(())
    }
}

/// Whether a path equals `outer` or lies within it. Every path lies within the empty path.
fn lies_within(path: &str, outer: &str) -> bool {
    match path.strip_prefix(outer) {
        Some(rest) => outer.is_empty() || rest.is_empty() || rest.starts_with('.'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::{DocBuf, doc};

    fn keys(pattern: DocBuf, options: DocBuf, document: DocBuf) -> Result<IndexKeys> {
        let mut spec = diwan_value::DocBuilder::new();
        spec.append("key", pattern).append("name", "i").append_all(options.as_doc());
        keys_of(&IndexSpec::parse(spec.finish().as_doc(), None).unwrap(), document.as_doc())
    }

    fn tuple(values: &[Value<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for value in values {
            key::encode_order(&mut bytes, *value, Direction::Ascending, None);
        }
        bytes
    }

    fn bytes_of(keys: &IndexKeys) -> Vec<Vec<u8>> {
        keys.entries.iter().map(|(key, _)| key.clone()).collect()
    }

    #[test]
    fn a_missing_field_has_the_key_of_null_unless_the_index_is_sparse() {
        let found = keys(doc! { "a": 1 }, doc! {}, doc! { "b": 1 }).unwrap();
        assert_eq!(bytes_of(&found), [tuple(&[Value::Null])]);
        assert!(keys(doc! { "a": 1 }, doc! { "sparse": true }, doc! { "b": 1 }).unwrap().entries.is_empty());
    }

    #[test]
    fn an_array_gives_an_entry_for_each_element() {
        let found = keys(doc! { "a": 1 }, doc! {}, doc! { "a": [3, 1, 3] }).unwrap();
        assert_eq!(bytes_of(&found), [tuple(&[Value::Int32(1)]), tuple(&[Value::Int32(3)])]);
        assert_eq!(found.multikey, 1);
    }

    #[test]
    fn compound_fields_share_one_array() {
        let document = doc! { "a": [{ "x": 1, "y": 2 }, { "x": 3 }], "b": 9 };
        let found = keys(doc! { "b": 1, "a.x": 1, "a.y": 1 }, doc! {}, document).unwrap();
        assert_eq!(
            bytes_of(&found),
            [
                tuple(&[Value::Int32(9), Value::Int32(1), Value::Int32(2)]),
                tuple(&[Value::Int32(9), Value::Int32(3), Value::Null])
            ]
        );
        assert_eq!(found.multikey, 0b110);
    }

    #[test]
    fn parallel_arrays_are_refused() {
        let error = keys(doc! { "a": 1, "b": 1 }, doc! {}, doc! { "a": [1], "b": [2] }).unwrap_err();
        assert!(error.to_string().contains("cannot index parallel arrays [b] [a]"), "{error}");
    }

    #[test]
    fn a_numeric_part_of_a_path_selects_an_element() {
        let found = keys(doc! { "a.1": 1 }, doc! {}, doc! { "a": [5, 6] }).unwrap();
        assert_eq!(bytes_of(&found), [tuple(&[Value::Int32(6)])]);
        assert_eq!(found.multikey, 0);
        // The element is indexed as a whole, even if it is an array.
        let found = keys(doc! { "a.1": 1 }, doc! {}, doc! { "a": [5, [6, 7]] }).unwrap();
        let inner = doc! { "v": [6, 7] };
        assert_eq!(bytes_of(&found), [tuple(&[inner.as_doc().get("v").unwrap()])]);
        assert_eq!(found.multikey & crate::index::ARRAYS, 0);
    }

    #[test]
    fn a_number_that_may_be_an_element_or_a_field_is_refused() {
        let document = || doc! { "b": [{ "1": 3 }, 7] };
        let error = keys(doc! { "b.1": 1 }, doc! {}, document()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array), field: \
             '1' for array: { 0: { 1: 3 }, 1: 7 }"
        );
        // A number beyond the array's end can only be a field name.
        let found = keys(doc! { "b.1": 1 }, doc! {}, doc! { "b": [{ "1": 3 }] }).unwrap();
        assert_eq!(bytes_of(&found), [tuple(&[Value::Int32(3)])]);
        assert!(keys(doc! { "b.0": 1 }, doc! {}, document()).is_ok());
    }

    #[test]
    fn a_wildcard_below_a_path_enters_arrays() {
        let found =
            keys(doc! { "a.x.$**": 1 }, doc! {}, doc! { "a": [{ "x": 1, "y": 2 }, { "x": { "z": 3 } }, 4] });
        assert_eq!(
            bytes_of(&found.unwrap()),
            [
                tuple(&[Value::String("a.x"), Value::Int32(1)]),
                tuple(&[Value::String("a.x.z"), Value::Int32(3)])
            ]
        );
    }

    #[test]
    fn a_wildcard_indexes_every_path() {
        let found = keys(doc! { "$**": 1 }, doc! {}, doc! { "a": { "b": 1 }, "c": [2] }).unwrap();
        assert_eq!(
            bytes_of(&found),
            [tuple(&[Value::String("a.b"), Value::Int32(1)]), tuple(&[Value::String("c"), Value::Int32(2)])]
        );
    }
}
