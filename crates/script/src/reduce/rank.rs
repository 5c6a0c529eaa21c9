//! `_first` and `_last` return the value of the first or last row. `_top_N` and `_bottom_N` return the greatest or
//! smallest distinct values.

use super::{ReduceRow, text};
use crate::collate::{self, Order};
use diwan_store::keys::{read_number, write_number};

/// The reduction for the row with the smallest or greatest place: the place with its length, then the value.
pub(super) fn edge<'a>(rows: impl Iterator<Item = (&'a [u8], &'a str)>, first: bool) -> Vec<u8> {
    let chosen = rows.reduce(|best, next| if (next.0 < best.0) == first { next } else { best });
    let mut out = Vec::new();
    if let Some((place, value)) = chosen {
        write_number(&mut out, place.len() as u64);
        out.extend_from_slice(place);
        out.extend_from_slice(value.as_bytes());
    }
    out
}

/// The place and the value in such a reduction.
pub(super) fn split(reduction: &[u8]) -> Option<(&[u8], &str)> {
    let (length, rest) = read_number(reduction)?;
    let (place, value) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((place, text(value)))
}

/// The reduction, which is the JSON of an array.
pub(super) fn rows<'a>(rows: &mut dyn Iterator<Item = ReduceRow<'a>>, most: usize, top: bool) -> Vec<u8> {
    rank(rows.map(|row| row.value), most, top)
}

pub(super) fn merge(parts: &[&[u8]], most: usize, top: bool) -> Vec<u8> {
    rank(parts.iter().flat_map(|part| crate::json::elements(text(part))), most, top)
}

pub(super) fn finish(reduction: &[u8]) -> String {
    text(reduction).to_owned()
}

fn rank<'a>(values: impl Iterator<Item = &'a str>, most: usize, top: bool) -> Vec<u8> {
    let mut best: Vec<(Vec<u8>, &str)> = Vec::new();
    for value in values {
        let mut key = Vec::new();
        collate::write_key(&mut key, value, Order::Unicode);
        let found = best.binary_search_by(|(other, _)| if top { key.cmp(other) } else { other.cmp(&key) });
        if let Err(at) = found
            && at < most
        {
            best.insert(at, (key, value));
            best.truncate(most);
        }
    }
    let values: Vec<&str> = best.iter().map(|(_, value)| *value).collect();
    format!("[{}]", values.join(",")).into_bytes()
}
