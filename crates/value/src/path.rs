//! Dotted paths and the values they lead to in a document.

use crate::element::RawValue;
use crate::view::{Doc, Value};
use std::fmt;

/// A dotted path, split once: `"a.b.0"` has the parts `a`, `b` and `0`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    text: String,
    parts: Vec<PathPart>,
}

/// One part of a [`Path`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct PathPart {
    name: String,
    /// The part as an array index: digits without a leading zero.
    index: Option<usize>,
}

impl Path {
    /// Splits `text` at its dots. Empty parts are kept: whether they are allowed is the caller's rule.
    pub fn new(text: &str) -> Path {
        let parts = text
            .split('.')
            .map(|name| PathPart { name: name.to_owned(), index: array_index(name) })
            .collect();
        Path { text: text.to_owned(), parts }
    }

    /// The path of these names, which may contain dots; `as_str` then writes them as `\.`.
    pub fn from_names(names: impl IntoIterator<Item = String>) -> Path {
        let parts: Vec<PathPart> =
            names.into_iter().map(|name| PathPart { index: array_index(&name), name }).collect();
        let escaped: Vec<String> = parts.iter().map(|part| part.name.replace('.', "\\.")).collect();
        Path { text: escaped.join("."), parts }
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How many parts there are: at least one.
    pub fn depth(&self) -> usize {
        self.parts.len()
    }

    /// The name of part `at`.
    pub fn name(&self, at: usize) -> &str {
        &self.parts[at].name
    }

    /// Part `at` as an array index, if it is one.
    pub fn index(&self, at: usize) -> Option<usize> {
        self.parts[at].index
    }

    /// The names of the parts.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator + Clone {
        self.parts.iter().map(|part| part.name.as_str())
    }

    /// The value at the path, through documents only: the lookup does not enter arrays.
    pub fn get<'a>(&self, doc: Doc<'a>) -> Option<Value<'a>> {
        self.get_raw(doc).and_then(RawValue::decode)
    }

    /// Like [`Path::get`], without decoding the value.
    pub fn get_raw<'a>(&self, doc: Doc<'a>) -> Option<RawValue<'a>> {
        let (last, leading) = self.parts.split_last()?;
        let mut doc = doc;
        for part in leading {
            doc = doc.get_doc(&part.name)?;
        }
        doc.get_raw(&last.name)
    }

    /// Whether this path is `other` or leads to something inside it.
    pub fn starts_with(&self, other: &Path) -> bool {
        self.parts.len() >= other.parts.len()
            && self.names().zip(other.names()).all(|(mine, theirs)| mine == theirs)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

/// The array index that `name` denotes: digits, no leading zero.
fn array_index(name: &str) -> Option<usize> {
    let canonical = name == "0" || (!name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit()));
    if canonical { name.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    #[test]
    fn reaches_nested_values_and_not_through_arrays() {
        let document = doc! { "a": { "b": 7 }, "list": [{ "b": 1 }] };
        assert_eq!(Path::new("a.b").get(document.as_doc()), Some(Value::Int32(7)));
        assert_eq!(Path::new("a.c").get(document.as_doc()), None);
        assert_eq!(Path::new("list.b").get(document.as_doc()), None);
    }

    #[test]
    fn only_canonical_digits_are_indexes() {
        assert_eq!(Path::new("a.10").index(1), Some(10));
        assert_eq!(Path::new("a.01").index(1), None);
        assert_eq!(Path::new("a.-1").index(1), None);
        assert_eq!(Path::new("a.").index(1), None);
    }
}
