//! Revisions as text.

use crate::error::{Error, Result};
use diwan_store::Revision;
use serde_json::Value;

/// A revision that a client names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rev {
    /// One that there may be here.
    Own(Revision),
    /// One that CouchDB would take, and that cannot be here: its hash has another form.
    Foreign(String),
}

impl Rev {
    /// Reads a revision: a number, a hyphen, some text.
    pub fn parse(text: &str) -> Result<Rev> {
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

    /// The revision, if it can be here.
    pub fn own(&self) -> Option<Revision> {
        match self {
            Rev::Own(revision) => Some(*revision),
            Rev::Foreign(_) => None,
        }
    }

    /// The generation as the client gave it.
    pub fn generation(&self) -> u64 {
        match self {
            Rev::Own(revision) => revision.generation.into(),
            Rev::Foreign(text) => text.split('-').next().and_then(|number| number.parse().ok()).unwrap_or(0),
        }
    }

    /// Appends its text.
    pub fn push(&self, out: &mut Vec<u8>) {
        match self {
            Rev::Own(revision) => push_rev(out, revision),
            // What was parsed as a revision may hold anything behind the hyphen, quotes included.
            Rev::Foreign(text) => {
                let quoted = Value::String(text.clone()).to_string();
                out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
            }
        }
    }
}

/// Reads a list of revisions.
pub fn parse_list(value: &Value) -> Result<Vec<Rev>> {
    let Value::Array(list) = value else { return Err(Error::bad_request("Invalid list of revisions")) };
    list.iter().map(|rev| rev.as_str().ok_or_else(Error::bad_revision).and_then(Rev::parse)).collect()
}

/// Appends a revision's text.
#[inline]
pub fn push_rev(out: &mut Vec<u8>, revision: &Revision) {
    let mut digits = [0; 11];
    let mut at = digits.len() - 1;
    digits[at] = b'-';
    let mut rest = revision.generation;
    while at > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    push_hash(out, &revision.hash);
}

/// Appends a revision's hash.
#[inline]
pub(super) fn push_hash(out: &mut Vec<u8>, hash: &[u8; 16]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(hash) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    out.extend_from_slice(&text);
}

/// Appends a revision as a JSON string.
#[inline]
pub fn write_rev(out: &mut Vec<u8>, revision: &Revision) {
    out.push(b'"');
    push_rev(out, revision);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_written_as_they_are_displayed() {
        for generation in [1, 9, 10, 123, u32::MAX] {
            let revision = Revision { generation, hash: [0xa5; 16] };
            let mut out = Vec::new();
            push_rev(&mut out, &revision);
            assert_eq!(String::from_utf8(out).unwrap(), revision.to_string());
            assert_eq!(Rev::parse(&revision.to_string()).unwrap(), Rev::Own(revision));
        }
        assert_eq!(Rev::parse("12-abc").unwrap().generation(), 12);
        for bad in ["", "1", "x-1", "1-", "-1-x"] {
            assert_eq!(Rev::parse(bad).unwrap_err().reason, "Invalid rev format", "{bad}");
        }
        let list = serde_json::json!(["1-a", 2]);
        assert!(parse_list(&list).is_err() && parse_list(&serde_json::json!({})).is_err());
    }
}
