//! The paths of update operators: their parts, their order, and the rules that they follow.

use crate::error::{Error, Result, code};
use diwan_value::MAX_DEPTH;
use std::cmp::Ordering;
use std::collections::HashSet;

/// One part of an update path.
pub(super) enum PathPart<'a> {
    Name(&'a str),
    Positional,
    Filtered(&'a str),
}

impl<'a> PathPart<'a> {
    pub fn new(part: &'a str) -> PathPart<'a> {
        if part == "$" {
            return PathPart::Positional;
        }
        match part.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) {
            Some(identifier) => PathPart::Filtered(identifier),
            None => PathPart::Name(part),
        }
    }
}

/// Whether `part` is `$`, `$[]` or `$[identifier]`.
pub(super) fn is_dynamic(part: &str) -> bool {
    !matches!(PathPart::new(part), PathPart::Name(_))
}

/// The order of field names in an update: array indexes by number, all other names by bytes.
pub(super) fn compare_names(a: &str, b: &str) -> Ordering {
    let digits = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    if digits(a) && digits(b) {
        let (trimmed_a, trimmed_b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
        let by_number = trimmed_a.len().cmp(&trimmed_b.len()).then_with(|| trimmed_a.cmp(trimmed_b));
        return by_number.then_with(|| a.cmp(b));
    }
    a.cmp(b)
}

/// Compares paths part by part.
pub(super) fn compare_paths(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        match (a.next(), b.next()) {
            (Some(a), Some(b)) => match compare_names(a, b) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
            (a, b) => return a.is_some().cmp(&b.is_some()),
        }
    }
}

/// Splits a path and checks that an update may change it.
pub(super) fn check_path<'p>(
    path: &'p str,
    known: &HashSet<&str>,
    used: &mut HashSet<String>,
) -> Result<Vec<&'p str>> {
    if path.is_empty() {
        return Err(Error::new(code::EMPTY_FIELD_NAME, "An empty update path is not valid."));
    }
    let parts: Vec<&str> = path.split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        let text = format!("The update path '{path}' contains an empty field name, which is not allowed.");
        return Err(Error::new(code::EMPTY_FIELD_NAME, text));
    }
    if parts.len() > MAX_DEPTH {
        return Err(too_deep());
    }
    let mut positionals = 0;
    for (at, part) in parts.iter().enumerate() {
        match PathPart::new(part) {
            PathPart::Name(_) => {}
            PathPart::Positional => {
                positionals += 1;
                if at == 0 {
                    return Err(Error::bad_value(format!(
                        "Cannot have positional (i.e. '$') element in the first position in path '{path}'"
                    )));
                }
            }
            PathPart::Filtered(_) if at == 0 => {
                return Err(Error::bad_value(format!(
                    "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path '{path}'"
                )));
            }
            // `$[]` needs no array filter.
            PathPart::Filtered("") => {}
            PathPart::Filtered(identifier) => {
                if !known.contains(identifier) {
                    return Err(Error::bad_value(format!(
                        "No array filter found for identifier '{identifier}' in path '{path}'"
                    )));
                }
                used.insert(identifier.to_owned());
            }
        }
    }
    if positionals > 1 {
        return Err(Error::bad_value(format!(
            "Too many positional (i.e. '$') elements found in path '{path}'"
        )));
    }
    Ok(parts)
}

/// The error for a document that nests too deep.
pub(super) fn too_deep() -> Error {
    Error::new(code::OVERFLOW, format!("Document exceeds maximum nesting depth of {MAX_DEPTH}"))
}
