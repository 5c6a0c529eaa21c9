//! Revisions as text.

use crate::error::{Error, Result};
use diwan_store::Revision;
use serde_json::Value;

/// A revision named by a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rev {
    /// A revision that this store can contain.
    Own(Revision),
    /// A revision that is valid in CouchDB but that this store cannot contain: it is neither a hash nor a short text.
    Foreign(String),
}

impl Rev {
    /// Parses a revision: a number, a hyphen, and text.
    pub(crate) fn parse(text: &str) -> Result<Rev> {
        if let Some(revision) = Revision::parse(text) {
            return Ok(Rev::Own(revision));
        }
        match text.split_once('-') {
            Some((generation, hash)) if generation.parse::<u64>().is_ok() && !hash.is_empty() => {
                Ok(Rev::Foreign(text.to_owned()))
            }
            _ => Err(Error::bad_revision()),
        }
    }

    /// Returns the revision if this store can contain it.
    pub(crate) fn own(&self) -> Option<Revision> {
        match self {
            Rev::Own(revision) => Some(*revision),
            Rev::Foreign(_) => None,
        }
    }

    /// The generation that the text states.
    pub(crate) fn generation(&self) -> u64 {
        match self {
            Rev::Own(revision) => revision.generation.into(),
            Rev::Foreign(text) => text.split('-').next().and_then(|number| number.parse().ok()).unwrap_or(0),
        }
    }

    /// Appends the text.
    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        match self {
            Rev::Own(revision) => push_rev(out, revision),
            // The text after the hyphen is arbitrary and may contain quotes.
            Rev::Foreign(text) => {
                let quoted = Value::String(text.clone()).to_string();
                out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
            }
        }
    }
}

/// Parses a JSON array of revisions.
pub(crate) fn parse_list(value: &Value) -> Result<Vec<Rev>> {
    let Value::Array(list) = value else { return Err(Error::bad_request("Invalid list of revisions")) };
    list.iter().map(|rev| rev.as_str().ok_or_else(Error::bad_revision).and_then(Rev::parse)).collect()
}

/// Appends a revision's text.
#[inline]
pub(crate) fn push_rev(out: &mut Vec<u8>, revision: &Revision) {
    revision.push(out);
}

/// Appends a revision as a JSON string.
#[inline]
pub(crate) fn write_rev(out: &mut Vec<u8>, revision: &Revision) {
    out.push(b'"');
    push_rev(out, revision);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rev_parse_and_push_are_inverse() {
        for text in ["12-0123456789abcdef0123456789abcdef", "1-a", "2-foo", "3-longer than it may be", "0-7"]
        {
            let mut out = Vec::new();
            Rev::parse(text).unwrap().push(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        assert!(Rev::parse("1-abc").unwrap().own().is_some());
        assert_eq!(Rev::parse("12-abcdefghijkl").unwrap(), Rev::Foreign("12-abcdefghijkl".to_owned()));
        assert_eq!(Rev::parse("12-abcdefghijkl").unwrap().generation(), 12);
        for bad in ["", "1", "x-1", "1-", "-1-x"] {
            assert_eq!(Rev::parse(bad).unwrap_err().reason, "Invalid rev format", "{bad}");
        }
        let list = serde_json::json!(["1-a", 2]);
        assert!(parse_list(&list).is_err() && parse_list(&serde_json::json!({})).is_err());
    }
}
