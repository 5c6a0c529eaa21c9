//! The `sort` of a query: `["a", {"b.c": "asc"}]`, with one direction for all fields, in CouchDB's order of values.

use super::{Error, Result, field};
use crate::sort::{Sort, SortPart};
use diwan_value::Value;
use diwan_value::key::Direction;

/// The maximum number of fields in a sort.
const MAX_FIELDS: usize = 32;

/// Parses a sort; `None` if it has no field. Missing fields sort as null.
pub fn parse_sort(sort: Value<'_>) -> Result<Option<Sort>> {
    let Value::Array(array) = sort else {
        return Err(Error::about("invalid_sort_json", "Sort must be an array of sort specs, not: ", sort));
    };
    let mut parts: Vec<SortPart> = Vec::new();
    for spec in array.iter() {
        let invalid = || Error::about("invalid_sort_field", "Invalid sort field: ", spec);
        let (name, direction) = match spec {
            Value::String(name) => (name, Direction::Ascending),
            Value::Document(doc) => {
                let mut members = doc.iter();
                match (members.next(), members.next()) {
                    (Some(only), None) => match only.value() {
                        Value::String("asc") => (only.key_str(), Direction::Ascending),
                        Value::String("desc") => (only.key_str(), Direction::Descending),
                        _ => return Err(invalid()),
                    },
                    _ => return Err(invalid()),
                }
            }
            _ => return Err(invalid()),
        };
        let mut names = Vec::new();
        if name.is_empty() || (name.starts_with('$') && !field::is_renamed(name)) {
            return Err(invalid());
        }
        field::split(name, &mut names)?;
        let path = field::stored_path(&names);
        // Stored documents do not contain metadata, so they cannot be sorted by it.
        if field::is_metadata(&path) || parts.len() == MAX_FIELDS {
            return Err(invalid());
        }
        if parts.first().is_some_and(|first| first.direction != direction) {
            let reason = "Sorts currently only support a single direction for all fields.";
            return Err(Error::new("unsupported_mixed_sort", reason));
        }
        if !parts.iter().any(|part| part.path == path) {
            parts.push(SortPart { path, direction });
        }
    }
    Ok((!parts.is_empty()).then(|| Sort::as_couchdb(parts)))
}
