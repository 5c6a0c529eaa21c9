//! Keys as columns, and ranges of keys as conditions on columns.
//!
//! PostgreSQL limits an entry of a B-tree to about 2,700 bytes, and a key may have 65,535. So a key is stored in three
//! columns: `head`, its first [`HEAD`] bytes; `rest`, a hash of the other bytes; `tail`, those bytes themselves, which no
//! index contains. The primary key is `(head, rest)`. For a key of at most [`HEAD`] bytes `rest` is empty and `tail` is null.
//!
//! Rows in the order of `head` are in the order of their keys, except among long keys that share a head. A scan reads such
//! a group in the order of `tail`. So a range of keys is at most three [segments](Segment).

use diwan_kv::{Bytes, KeyRange};
use std::collections::VecDeque;
use std::ops::Bound;

/// The most bytes of a key that the index contains. With the hash they fit into an entry.
pub(crate) const HEAD: usize = 2000;

/// A key as its columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'a> {
    /// The first bytes.
    pub head: &'a [u8],
    /// The other bytes of a long key.
    pub tail: Option<&'a [u8]>,
    hash: [u8; 32],
}

impl<'a> Columns<'a> {
    /// The columns of `key`.
    pub fn of(key: &'a [u8]) -> Columns<'a> {
        match key.split_at_checked(HEAD) {
            Some((head, tail)) if !tail.is_empty() => {
                Columns { head, tail: Some(tail), hash: *blake3::hash(tail).as_bytes() }
            }
            _ => Columns { head: key, tail: None, hash: [0; 32] },
        }
    }

    /// The hash of the other bytes; empty for a short key.
    pub fn rest(&self) -> &[u8] {
        if self.tail.is_some() { &self.hash } else { b"" }
    }
}

/// Whether a key is stored with a tail.
pub(crate) fn is_long(key: &[u8]) -> bool {
    key.len() > HEAD
}

/// A part of a range that one statement reads in the order of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// The keys whose head is at least `from` and less than `to`.
    Heads {
        /// The first head.
        from: Vec<u8>,
        /// The first head after them.
        to: Vec<u8>,
    },
    /// The keys with this head whose tail is at least `from` and less than `to`.
    Tails {
        /// The head, which has [`HEAD`] bytes.
        head: Vec<u8>,
        /// The first tail.
        from: Vec<u8>,
        /// The first tail after them; `None`: to the end.
        to: Option<Vec<u8>>,
    },
}

/// A head that is greater than every stored one.
fn beyond_all() -> Vec<u8> {
    vec![0xff; HEAD + 1]
}

/// The smallest byte string that is greater than `bytes`.
pub(crate) fn successor(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0]].concat()
}

/// The segments of a range, in ascending order.
pub(crate) fn segments(range: &KeyRange) -> VecDeque<Segment> {
    let mut segments = VecDeque::new();
    if range.is_empty() {
        return segments;
    }
    let start = match &range.start {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.to_vec(),
        Bound::Excluded(key) => successor(key),
    };
    let end: Option<Bytes> = match &range.end {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(successor(key).into()),
        Bound::Excluded(key) => Some(key.clone()),
    };
    let (last, last_tail) = match end.as_deref() {
        Some(end) if is_long(end) => (end[..HEAD].to_vec(), Some(end[HEAD..].to_vec())),
        Some(end) => (end.to_vec(), None),
        None => (beyond_all(), None),
    };
    let mut from = start;
    if is_long(&from) {
        let (head, tail) = (from[..HEAD].to_vec(), from[HEAD..].to_vec());
        if head == last {
            segments.push_back(Segment::Tails { head, from: tail, to: last_tail });
            return segments;
        }
        from = successor(&head);
        segments.push_back(Segment::Tails { head, from: tail, to: None });
    }
    segments.push_back(Segment::Heads { from, to: last.clone() });
    if last_tail.is_some() {
        segments.push_back(Segment::Tails { head: last, from: Vec::new(), to: last_tail });
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(segment: &Segment, key: &[u8]) -> bool {
        let columns = Columns::of(key);
        let tail = columns.tail.unwrap_or_default();
        match segment {
            Segment::Heads { from, to } => columns.head >= from.as_slice() && columns.head < to.as_slice(),
            Segment::Tails { head, from, to } => {
                columns.head == head.as_slice()
                    && tail >= from.as_slice()
                    && to.as_ref().is_none_or(|to| tail < to.as_slice())
            }
        }
    }

    #[test]
    fn segments_contain_the_keys_of_their_range_once() {
        let long = |fill: u8, len: usize, tail: &[u8]| [&vec![fill; len][..], tail].concat();
        let mut keys: Vec<Vec<u8>> = vec![vec![0], vec![1], vec![1, 0], vec![2], vec![0xff]];
        for fill in [1, 0xff] {
            for len in [HEAD - 1, HEAD, HEAD + 1, 65_535] {
                keys.push(long(fill, len, b""));
            }
            for tail in [&[0][..], &[0, 0], &[1], &[0xff]] {
                keys.push(long(fill, HEAD, tail));
                keys.push(long(fill, HEAD - 1, tail));
            }
        }
        keys.sort();
        keys.dedup();
        let bounds: Vec<Bound<Bytes>> = keys
            .iter()
            .flat_map(|key| [Bound::Included(key.as_slice().into()), Bound::Excluded(key.as_slice().into())])
            .chain([Bound::Unbounded])
            .collect();
        for start in &bounds {
            for end in &bounds {
                let range = KeyRange::new(start.clone(), end.clone());
                let segments = segments(&range);
                for key in &keys {
                    let found = segments.iter().filter(|segment| contains(segment, key)).count();
                    assert_eq!(found, usize::from(range.contains(key)), "{:?}", key.len());
                }
            }
        }
    }

    #[test]
    fn only_long_keys_have_a_rest() {
        assert!(Columns::of(&[7; HEAD]).rest().is_empty());
        let long = [7; HEAD + 1];
        let columns = Columns::of(&long);
        assert_eq!((columns.head.len(), columns.tail, columns.rest().len()), (HEAD, Some(&[7][..]), 32));
    }
}
