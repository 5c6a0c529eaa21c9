//! Cutting a range into parts of about the same size.
//!
//! The estimate reads the first and the last key of the range, and assumes that the keys between them are evenly
//! spread: the eight bytes after their common prefix are numbers to interpolate. Identifiers that grow with time or
//! by count, and hashes, are spread that way; with other keys the parts are merely unequal.

use crate::{Bytes, Direction, KeyRange, Pairs, Result};
use std::ops::Bound;

pub(crate) fn by_interpolation(
    scan: impl Fn(KeyRange, Direction) -> Pairs,
    range: KeyRange,
    parts: usize,
) -> Result<Vec<KeyRange>> {
    let end = |direction| scan(range.clone(), direction).next().transpose();
    let (Some((first, _)), Some((last, _))) = (end(Direction::Forward)?, end(Direction::Reverse)?) else {
        return Ok(vec![range]);
    };
    let mut ranges = Vec::with_capacity(parts);
    let mut start = range.start;
    for cut in cuts(&first, &last, parts) {
        ranges.push(KeyRange::new(start, Bound::Excluded(cut.clone())));
        start = Bound::Included(cut);
    }
    ranges.push(KeyRange::new(start, range.end));
    Ok(ranges)
}

/// At most `parts - 1` ascending keys between `first` and `last`.
fn cuts(first: &[u8], last: &[u8], parts: usize) -> Vec<Bytes> {
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let low = u128::from(leading_number(&first[shared..]));
    let high = u128::from(leading_number(&last[shared..]));
    let count = parts.max(1) as u128;
    let mut cuts: Vec<Bytes> = Vec::with_capacity(parts.saturating_sub(1));
    for i in 1..count {
        let at = low + (high - low.min(high)) * i / count;
        let tail = u64::try_from(at).unwrap_or(u64::MAX).to_be_bytes();
        let cut = Bytes::from([&first[..shared], &tail[..]].concat());
        if *cut > *first && *cut <= *last && cuts.last().is_none_or(|previous| *previous < cut) {
            cuts.push(cut);
        }
    }
    cuts
}

/// The first eight bytes as a number in the keys' order; missing ones count as zero.
pub(crate) fn leading_number(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    let len = bytes.len().min(8);
    eight[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_even_ascending_and_inside() {
        let key = |n: u32| [b"coll/".as_slice(), &n.to_be_bytes()].concat();
        let cuts = cuts(&key(0), &key(1000), 4);
        let numbers: Vec<u32> = cuts.iter().map(|c| u32::from_be_bytes([c[5], c[6], c[7], c[8]])).collect();
        assert_eq!(cuts.len(), 3, "{cuts:?}");
        for (n, expected) in numbers.iter().zip([250, 500, 750]) {
            assert!(n.abs_diff(expected) <= 1, "{numbers:?}");
        }
    }

    #[test]
    fn neighbouring_keys_give_few_parts() {
        assert!(cuts(b"a", b"a", 8).is_empty());
        assert!(cuts(b"aaaaaaaaa", b"aaaaaaaab", 300).len() <= 299);
        assert!(cuts(b"a", b"a\0", 4).len() <= 1);
        assert!(cuts(b"a", b"b", 0).is_empty());
    }
}
