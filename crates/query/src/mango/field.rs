//! Names of fields: dots and their escapes, and the mapping of HTTP names to stored names.

use super::{Error, Result};
use diwan_value::json::is_metadata_member;
use diwan_value::{Array, Doc, Path, RawValue, Type, Value};

/// The maximum number of parts in a path.
const MAX_PARTS: usize = 255;

/// Splits a name at its dots. `\.` stands for a dot in a name.
pub(super) fn split(name: &str, parts: &mut Vec<String>) -> Result<()> {
    let mut part = String::new();
    let mut escaped = false;
    for char in name.chars().chain(['.']) {
        if char == '.' && !escaped {
            if part.is_empty() {
                return Err(Error::new("invalid_field_name", format!("Invalid field name: {name}")));
            }
            parts.push(std::mem::take(&mut part));
        } else if char != '\\' {
            part.push(char);
        }
        escaped = char == '\\';
    }
    if !part.is_empty() || parts.len() > MAX_PARTS {
        return Err(Error::new("invalid_field_name", format!("Invalid field name: {name}")));
    }
    Ok(())
}

/// The path in stored documents for the parts of an HTTP member's name.
pub(super) fn stored_path(parts: &[String]) -> Path {
    let mut parts = parts.to_vec();
    if let Some(first) = parts.first_mut() {
        if is_metadata_member(first) {
            first.insert(0, '$');
        } else if first.starts_with("$_") {
            first.remove(0);
        }
    }
    Path::from_names(parts)
}

/// Whether a member is a renamed field: its name begins with a dollar and an underscore.
pub(super) fn is_renamed(name: &str) -> bool {
    name.starts_with("$_") && is_metadata_member(name[1..].split('.').next().unwrap_or_default())
}

/// Whether a path names metadata, which stored documents do not contain.
pub(super) fn is_metadata(path: &Path) -> bool {
    path.name(0).starts_with("$_")
}

/// The end of a walk along a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached<'a> {
    /// The path ends at a value.
    Value(RawValue<'a>),
    /// The path ends at a document without the field.
    Missing,
    /// The path enters a scalar, or passes the end of an array.
    Nowhere,
}

/// The value at a path in a document.
pub(crate) fn value_at<'a>(path: &Path, doc: Doc<'a>) -> Option<Value<'a>> {
    match reach(path, doc.get_raw(path.name(0)), 1) {
        Reached::Value(raw) => raw.decode(),
        Reached::Missing | Reached::Nowhere => None,
    }
}

/// Follows a path from `value`, the value after its first `at` parts.
pub(super) fn reach<'a>(path: &Path, value: Option<RawValue<'a>>, at: usize) -> Reached<'a> {
    let mut value = value;
    for at in at..path.depth() {
        value = match value {
            None => return Reached::Missing,
            Some(raw) if raw.tag == Type::Document => Doc::trusted(raw.bytes).get_raw(path.name(at)),
            Some(raw) if raw.tag == Type::Array => {
                let element =
                    path.index(at).and_then(|index| Array::trusted(raw.bytes).elements().nth(index));
                match element {
                    Some(element) => Some(element.raw),
                    None => return Reached::Nowhere,
                }
            }
            Some(_) => return Reached::Nowhere,
        };
    }
    value.map_or(Reached::Missing, Reached::Value)
}
