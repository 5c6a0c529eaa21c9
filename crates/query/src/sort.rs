//! Sort patterns, and the order-preserving key bytes that documents are sorted by.
//!
//! [`Sort::key`] writes a document's key; comparing keys as bytes orders the documents. Where a path reaches several
//! values through an array, an ascending sort uses the smallest and a descending sort the largest. A pattern with
//! several parts uses the smallest combination, as an index would. An empty array sorts before null; a missing field
//! sorts as null. A CouchDB sort uses each value as it is, in CouchDB's order.

use crate::display::{ShownDoc, ShownField};
use crate::error::{Error, Result, code};
use crate::expr::field_path;
use crate::mango;
use diwan_value::key::{Direction, encode_order};
use diwan_value::{Array, Collator, Doc, Path, Value, compare, compare_with};
use std::cmp::Ordering;

/// The maximum number of parts of a sort pattern.
const MAX_PARTS: usize = 32;

/// A sort pattern: `{a: 1, "b.c": -1}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    parts: Vec<SortPart>,
    natural: Option<Direction>,
    couchdb: bool,
}

/// One part of a sort pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortPart {
    /// The path to sort by.
    pub path: Path,
    /// The direction.
    pub direction: Direction,
}

impl Sort {
    /// Parses the `sort` of a find, which may be `$natural`.
    pub fn parse(doc: Doc<'_>) -> Result<Sort> {
        if let Some(order) = doc.get("$natural") {
            if doc.count() > 1 {
                return Err(Error::bad_value(format!(
                    "Cannot include '$natural' in compound sort: {}",
                    ShownDoc(doc)
                )));
            }
            let direction = direction(order).ok_or_else(|| {
                Error::bad_value("$natural sort cannot be set to a value other than -1 or 1.")
            })?;
            return Ok(Sort { natural: Some(direction), ..Sort::default() });
        }
        Sort::parse_parts(doc)
    }

    /// Parses the argument of the stage `$sort`.
    pub(crate) fn parse_stage(spec: Value<'_>) -> Result<Sort> {
        let Value::Document(doc) = spec else {
            return Err(Error::new(15973, "the $sort key specification must be an object"));
        };
        if doc.is_empty() {
            return Err(Error::new(15976, "$sort stage must have at least one sort key"));
        }
        Sort::parse_parts(doc)
    }

    fn parse_parts(doc: Doc<'_>) -> Result<Sort> {
        let mut parts: Vec<SortPart> = Vec::new();
        for element in doc {
            let (name, value) = (element.key_str(), element.value());
            if let Value::Document(meta) = value {
                return Err(meta_error(meta));
            }
            if !value.is_number() {
                let text = format!("Illegal key in $sort specification: {}", ShownField(name, value));
                return Err(Error::new(15974, text));
            }
            let Some(direction) = direction(value) else {
                let text = "$sort key ordering must be 1 (for ascending) or -1 (for descending)";
                return Err(Error::new(15975, text));
            };
            let path = field_path(name)?;
            if parts.iter().any(|part| part.path == path) {
                let text = format!("$sort key must not contain duplicate keys (duplicate: '{path}')");
                return Err(Error::new(7472500, text));
            }
            parts.push(SortPart { path, direction });
        }
        if parts.len() > MAX_PARTS {
            return Err(Error::new(13103, "too many compound keys"));
        }
        Ok(Sort { parts, ..Sort::default() })
    }

    /// Makes a sort in CouchDB's order, where paths do not enter arrays and types rank differently.
    pub(crate) fn as_couchdb(parts: Vec<SortPart>) -> Sort {
        Sort { parts, couchdb: true, ..Sort::default() }
    }

    /// Whether the order is CouchDB's.
    pub fn is_couchdb(&self) -> bool {
        self.couchdb
    }

    /// The parts in order.
    pub fn parts(&self) -> &[SortPart] {
        &self.parts
    }

    /// The direction of a `$natural` sort.
    pub fn natural(&self) -> Option<Direction> {
        self.natural
    }

    /// Whether the pattern is empty.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends the sort key of `doc`. Fails if two paths lead through different arrays.
    pub fn key(&self, doc: Doc<'_>, collator: Option<&Collator>, out: &mut Vec<u8>) -> Result<()> {
        if self.couchdb {
            self.parts.iter().for_each(|part| couchdb_key(doc, part, out));
            return Ok(());
        }
        let start = out.len();
        for part in &self.parts {
            match plain_value(doc, &part.path) {
                Some(value) => encode_order(out, value, part.direction, collator),
                None => {
                    out.truncate(start);
                    return self.least_key(doc, collator, out);
                }
            }
        }
        Ok(())
    }

    /// Appends the smallest of the keys that the document's arrays produce.
    fn least_key(&self, doc: Doc<'_>, collator: Option<&Collator>, out: &mut Vec<u8>) -> Result<()> {
        let mut expansion = Expansion { sort: self, collator, least: None };
        let mut places = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            places.push(reach(Value::Document(doc), &part.path, 0)?);
        }
        expansion.expand(places)?;
        out.extend_from_slice(&expansion.least.unwrap_or_default());
        Ok(())
    }
}

/// Appends the key bytes of one part of a CouchDB sort.
fn couchdb_key(doc: Doc<'_>, part: &SortPart, out: &mut Vec<u8>) {
    let start = out.len();
    mango::encode(out, mango::value_at(&part.path, doc).unwrap_or(Value::Null));
    if part.direction == Direction::Descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// The value at a path that crosses no array: null if it is missing. `None` if there is an array.
#[inline]
fn plain_value<'a>(doc: Doc<'a>, path: &Path) -> Option<Value<'a>> {
    let mut doc = doc;
    let last = path.depth() - 1;
    for at in 0..last {
        match doc.get(path.name(at)) {
            Some(Value::Document(inner)) => doc = inner,
            Some(Value::Array(_)) => return None,
            _ => return Some(Value::Null),
        }
    }
    match doc.get(path.name(last)) {
        Some(Value::Array(_)) => None,
        value => Some(value.unwrap_or(Value::Null)),
    }
}

/// Where a walk along a part's path stopped.
#[derive(Clone, Copy)]
enum WalkEnd<'a> {
    /// At the value.
    Value(Value<'a>),
    /// At an array, before the path part with this number.
    Array(Array<'a>, usize),
}

/// Follows `path` from part `at` into `value` until it reaches an array.
fn reach<'a>(value: Value<'a>, path: &Path, mut at: usize) -> Result<WalkEnd<'a>> {
    let mut value = value;
    Ok(loop {
        match value {
            Value::Array(array) => {
                let indexed = (at < path.depth()).then(|| path.index(at)).flatten();
                match indexed.and_then(|index| array.get(index)) {
                    Some(element) => {
                        refuse_ambiguous(array, path.name(at))?;
                        at += 1;
                        // An index in the path selected this element, so an array at the end of the path is not
                        // expanded.
                        if at == path.depth() {
                            break WalkEnd::Value(element);
                        }
                        value = element;
                    }
                    None => break WalkEnd::Array(array, at),
                }
            }
            other if at == path.depth() => break WalkEnd::Value(other),
            Value::Document(doc) => match doc.get(path.name(at)) {
                Some(inner) => {
                    at += 1;
                    value = inner;
                }
                None => break WalkEnd::Value(Value::Null),
            },
            _ => break WalkEnd::Value(Value::Null),
        }
    })
}

/// Rejects an array if a numeric path part names both an element and a field of a document in the array: neither an
/// index nor a sort can resolve the ambiguity.
pub fn refuse_ambiguous(array: Array<'_>, number: &str) -> Result<()> {
    let is_named = |element: Value<'_>| element.as_doc().is_some_and(|doc| doc.contains_key(number));
    if !array.iter().any(is_named) {
        return Ok(());
    }
    let text = format!(
        "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array), field: \
         '{number}' for array: {}",
        ShownDoc(Doc::trusted(array.as_bytes()))
    );
    Err(Error::new(16746, text))
}

/// The search for the smallest key of a document with arrays.
struct Expansion<'s> {
    sort: &'s Sort,
    collator: Option<&'s Collator>,
    least: Option<Vec<u8>>,
}

impl Expansion<'_> {
    /// Takes one array that some parts have reached, and continues with each of its elements.
    fn expand(&mut self, places: Vec<WalkEnd<'_>>) -> Result<()> {
        let first = places.iter().find_map(|place| match place {
            WalkEnd::Array(array, _) => Some(*array),
            WalkEnd::Value(_) => None,
        });
        let Some(array) = first else {
            self.offer(&places);
            return Ok(());
        };
        // Two parts are in the same array if its bytes are at the same address.
        let same = |other: Array<'_>| std::ptr::eq(other.as_bytes(), array.as_bytes());
        let others = |place: &WalkEnd<'_>| matches!(place, WalkEnd::Array(other, _) if !same(*other));
        if places.iter().any(others) {
            return Err(Error::bad_value("cannot sort with keys that are parallel arrays"));
        }
        let parts = &self.sort.parts;
        let elements: Vec<Option<Value<'_>>> =
            if array.is_empty() { vec![None] } else { array.iter().map(Some).collect() };
        for element in elements {
            let mut inner = Vec::with_capacity(places.len());
            for (place, part) in places.iter().zip(parts) {
                inner.push(match *place {
                    WalkEnd::Array(_, at) => match element {
                        // A value inside the array counts only if it is at the end of a path.
                        Some(value) if at == part.path.depth() => WalkEnd::Value(value),
                        // Like an index, the sort does not enter arrays directly inside arrays.
                        Some(Value::Array(_)) => WalkEnd::Value(Value::Null),
                        Some(value) => reach(value, &part.path, at)?,
                        None if at == part.path.depth() => WalkEnd::Value(Value::Undefined),
                        None => WalkEnd::Value(Value::Null),
                    },
                    value => value,
                });
            }
            self.expand(inner)?;
        }
        Ok(())
    }

    /// Keeps the key of `places` if it is the smallest so far.
    fn offer(&mut self, places: &[WalkEnd<'_>]) {
        let mut key = Vec::new();
        for (place, part) in places.iter().zip(&self.sort.parts) {
            if let WalkEnd::Value(value) = place {
                encode_order(&mut key, *value, part.direction, self.collator);
            }
        }
        if self.least.as_ref().is_none_or(|least| key < *least) {
            self.least = Some(key);
        }
    }
}

/// The direction for 1 or -1 of any numeric type.
fn direction(value: Value<'_>) -> Option<Direction> {
    if compare(value, Value::Int32(1)).is_eq() {
        Some(Direction::Ascending)
    } else if compare(value, Value::Int32(-1)).is_eq() {
        Some(Direction::Descending)
    } else {
        None
    }
}

/// The error for a pattern `{field: meta}` that is not a valid `$meta` sort.
fn meta_error(meta: Doc<'_>) -> Error {
    let Some(first) = meta.iter().next().filter(|first| first.key == b"$meta") else {
        return Error::new(17312, "$meta is the only expression supported by $sort right now");
    };
    if meta.count() > 1 {
        return Error::failed_to_parse("Cannot have additional keys in a $meta sort specification");
    }
    let kind = match first.value() {
        Value::String("textScore") => "text score",
        Value::String("randVal") => "rand val",
        Value::String("geoNearDistance") => "$geoNear distance",
        Value::String("searchScore") => "$search score",
        other => {
            return Error::new(31138, format!("Illegal $meta sort: {}", ShownField("$meta", other)));
        }
    };
    Error::new(40218, format!("query requires {kind} metadata, but it is not available"))
}

/// The order in which `$push` sorts array elements: by the whole element or by fields inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ElementOrder(Vec<(Option<Path>, Direction)>);

impl ElementOrder {
    /// Parses the argument of `$sort` in a `$push`: 1, -1 or a pattern.
    pub fn parse(spec: Value<'_>) -> Result<ElementOrder> {
        let illegal = || Error::new(code::BAD_VALUE, "The $sort element value must be either 1 or -1");
        match spec {
            Value::Document(pattern) => {
                if pattern.is_empty() {
                    return Err(Error::bad_value(
                        "The $sort pattern is empty when it should be a set of fields.",
                    ));
                }
                let mut parts = Vec::new();
                for element in pattern {
                    let name = element.key_str();
                    let direction = direction(element.value()).ok_or_else(illegal)?;
                    if name.is_empty() {
                        return Err(Error::bad_value("The $sort field cannot be empty"));
                    }
                    if name.split('.').any(str::is_empty) {
                        return Err(Error::bad_value(format!(
                            "The $sort field is a dotted field but has an empty part: {name}"
                        )));
                    }
                    parts.push((Some(Path::new(name)), direction));
                }
                Ok(ElementOrder(parts))
            }
            number if number.is_number() => {
                Ok(ElementOrder(vec![(None, direction(number).ok_or_else(illegal)?)]))
            }
            _ => Err(Error::bad_value(
                "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded \
                 fields",
            )),
        }
    }

    /// Compares two elements.
    pub fn compare(&self, a: Value<'_>, b: Value<'_>, collator: Option<&Collator>) -> Ordering {
        for (path, direction) in &self.0 {
            let ordering = match path {
                None => compare_with(a, b, collator),
                Some(path) => compare_with(inside(a, path), inside(b, path), collator),
            };
            if ordering.is_ne() {
                return if *direction == Direction::Descending { ordering.reverse() } else { ordering };
            }
        }
        Ordering::Equal
    }
}

/// The field of an element to sort by; null if the element has none.
fn inside<'a>(element: Value<'a>, path: &Path) -> Value<'a> {
    let mut value = element;
    for at in 0..path.depth() {
        let inner = match value {
            Value::Document(doc) => doc.get(path.name(at)),
            Value::Array(array) => path.index(at).and_then(|index| array.get(index)),
            _ => None,
        };
        let Some(inner) = inner else { return Value::Null };
        value = inner;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::{DocBuf, doc};

    fn sorted(pattern: DocBuf, docs: &[DocBuf]) -> Vec<i32> {
        let sort = Sort::parse(pattern.as_doc()).unwrap();
        let mut keyed: Vec<(Vec<u8>, i32)> = docs
            .iter()
            .map(|doc| {
                let mut key = Vec::new();
                sort.key(doc.as_doc(), None, &mut key).unwrap();
                (key, doc.as_doc().get("_id").and_then(Value::as_i64_exact).unwrap() as i32)
            })
            .collect();
        keyed.sort();
        keyed.into_iter().map(|(_, id)| id).collect()
    }

    #[test]
    fn key_uses_the_least_or_greatest_array_element() {
        let docs = [
            doc! { "_id": 1, "a": [5, 9] },
            doc! { "_id": 2, "a": 7 },
            doc! { "_id": 3, "a": [] },
            doc! { "_id": 4 },
            doc! { "_id": 5, "a": [8, 1] },
            doc! { "_id": 6, "a": "text" },
        ];
        assert_eq!(sorted(doc! { "a": 1 }, &docs), [3, 4, 5, 1, 2, 6]);
        assert_eq!(sorted(doc! { "a": -1 }, &docs), [6, 1, 5, 2, 4, 3]);
    }

    #[test]
    fn key_follows_paths_into_documents_and_arrays() {
        let docs = [
            doc! { "_id": 1, "a": { "b": 3 } },
            doc! { "_id": 2, "a": [{ "b": 4 }, { "b": 1 }] },
            doc! { "_id": 3, "a": [{ "c": 4 }, 7] },
            doc! { "_id": 4, "a": { "b": 2 } },
        ];
        assert_eq!(sorted(doc! { "a.b": 1 }, &docs), [3, 2, 4, 1]);
        assert_eq!(sorted(doc! { "a.b": -1 }, &docs), [2, 1, 4, 3]);
        assert_eq!(sorted(doc! { "a.0.b": 1, "_id": -1 }, &docs), [4, 3, 1, 2]);
    }

    #[test]
    fn key_of_parts_through_one_array_is_the_least_combination() {
        let docs = [
            doc! { "_id": 1, "a": [{ "b": 1, "c": 9 }, { "b": 2, "c": 0 }] },
            doc! { "_id": 2, "a": [{ "b": 1, "c": 5 }] },
        ];
        assert_eq!(sorted(doc! { "a.b": 1, "a.c": 1 }, &docs), [2, 1]);
        let parallel = doc! { "a": [1], "b": [2] };
        let sort = Sort::parse(doc! { "a": 1, "b": 1 }.as_doc()).unwrap();
        let error = sort.key(parallel.as_doc(), None, &mut Vec::new()).unwrap_err();
        assert_eq!(error.message, "cannot sort with keys that are parallel arrays");
    }

    #[test]
    fn key_treats_numbers_in_paths_as_array_indexes() {
        let docs = [
            doc! { "_id": 1, "a": [0, 5] },
            doc! { "_id": 2, "a": [[9, 0]] },
            doc! { "_id": 3, "a": [9, 1] },
        ];
        assert_eq!(sorted(doc! { "a.1": 1 }, &docs), [2, 3, 1]);
        let sort = Sort::parse(doc! { "a.1": 1 }.as_doc()).unwrap();
        let ambiguous = doc! { "a": [{ "1": 3 }, 7] };
        assert_eq!(sort.key(ambiguous.as_doc(), None, &mut Vec::new()).unwrap_err().code, 16746);
    }

    #[test]
    fn parsing_rejects_invalid_patterns() {
        let cases = [
            (doc! { "a": "x" }, 15974),
            (doc! { "a": 2 }, 15975),
            (doc! { "a": { "$meta": "textScore" } }, 40218),
            (doc! { "a": { "$meta": "nothing" } }, 31138),
            (doc! { "a": { "x": 1 } }, 17312),
            (doc! { "": 1 }, 40352),
            (doc! { "$a": 1 }, 16410),
            (doc! { "$natural": 2 }, 2),
            (doc! { "$natural": 1, "a": 1 }, 2),
        ];
        for (pattern, expected) in cases {
            assert_eq!(Sort::parse(pattern.as_doc()).unwrap_err().code, expected, "{pattern:?}");
        }
        assert_eq!(Sort::parse_stage(Value::Document(Doc::EMPTY)).unwrap_err().code, 15976);
        assert_eq!(
            Sort::parse(doc! { "$natural": -1 }.as_doc()).unwrap().natural(),
            Some(Direction::Descending)
        );
    }
}
