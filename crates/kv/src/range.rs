//! Ranges of keys.

use crate::Bytes;
use std::ops::{Bound, RangeBounds};

/// The keys between two bounds, in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where the range begins.
    pub start: Bound<Bytes>,
    /// Where the range ends.
    pub end: Bound<Bytes>,
}

impl KeyRange {
    /// Every key.
    pub const fn all() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let start = if prefix.is_empty() { Bound::Unbounded } else { Bound::Included(prefix.into()) };
        Self { start, end: prefix_end(prefix) }
    }

    /// The keys from `start` up to, but without, `end`.
    pub fn half_open(start: impl Into<Bytes>, end: impl Into<Bytes>) -> Self {
        Self { start: Bound::Included(start.into()), end: Bound::Excluded(end.into()) }
    }

    /// The keys from `start` to `end`, both included.
    pub fn closed(start: impl Into<Bytes>, end: impl Into<Bytes>) -> Self {
        Self { start: Bound::Included(start.into()), end: Bound::Included(end.into()) }
    }

    /// The keys between two bounds.
    pub fn new(start: Bound<Bytes>, end: Bound<Bytes>) -> Self {
        Self { start, end }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        RangeBounds::<[u8]>::contains(&(as_slice(&self.start), as_slice(&self.end)), key)
    }

    /// Whether no key at all can lie in the range.
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Included(s), Bound::Included(e)) => s > e,
            (Bound::Included(s) | Bound::Excluded(s), Bound::Excluded(e))
            | (Bound::Excluded(s), Bound::Included(e)) => s >= e,
            _ => false,
        }
    }

    /// Both bounds as slices, the form that ordered maps take.
    pub fn as_slices(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (as_slice(&self.start), as_slice(&self.end))
    }
}

fn as_slice(bound: &Bound<Bytes>) -> Bound<&[u8]> {
    bound.as_ref().map(|b| &**b)
}

/// The first key after all those that begin with `prefix`, as an upper bound.
fn prefix_end(prefix: &[u8]) -> Bound<Bytes> {
    match prefix.iter().rposition(|b| *b != 0xff) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            Bound::Excluded(end.into())
        }
        None => Bound::Unbounded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_ranges_hold_their_prefix_only() {
        let range = KeyRange::prefix(&[1, 0xff]);
        for (key, inside) in
            [(&[1u8, 0xfe][..], false), (&[1, 0xff], true), (&[1, 0xff, 0xff, 7], true), (&[2], false)]
        {
            assert_eq!(range.contains(key), inside, "{key:?}");
        }
        assert_eq!(KeyRange::prefix(&[0xff, 0xff]).end, Bound::Unbounded);
        assert_eq!(KeyRange::prefix(&[]), KeyRange::all());
    }

    #[test]
    fn backward_ranges_are_empty() {
        assert!(KeyRange::half_open(*b"b", *b"a").is_empty());
        assert!(KeyRange::half_open(*b"a", *b"a").is_empty());
        assert!(!KeyRange::closed(*b"a", *b"a").is_empty());
        assert!(!KeyRange::all().is_empty());
    }
}
