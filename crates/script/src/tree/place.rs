//! The place of a row: the bytes of its key, then the document's id, then the row's number among those of the document.
//!
//! In a partitioned view, the key bytes of the partition come first. An id is its text, in which each zero byte is
//! followed by 0xFF, and two zero bytes.

use crate::collate::{self, Order};
use diwan_store::keys::write_number;
use std::borrow::Cow;

/// The format of a view's places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The order of keys.
    pub order: Order,
    /// Whether places begin with a partition.
    pub partitioned: bool,
}

/// Sorts above everything that may follow a key or an id.
pub(crate) const ABOVE: u8 = 0xFF;

impl Layout {
    /// Appends the place of a row.
    pub fn write(self, out: &mut Vec<u8>, key: &str, id: &str, ordinal: usize) {
        if self.partitioned {
            let (partition, _) = id.split_once(':').unwrap_or((id, ""));
            write_partition(out, partition);
        }
        collate::write_key(out, key, self.order);
        write_id(out, id);
        write_number(out, ordinal as u64);
    }

    /// The length of the partition in a place, in bytes.
    fn partition_length(self, place: &[u8]) -> usize {
        if self.partitioned { id_length(place).unwrap_or(place.len()) } else { 0 }
    }

    /// The length of everything before the id in a place, in bytes.
    pub fn key_length(self, place: &[u8]) -> usize {
        let partition = self.partition_length(place);
        let key = place.get(partition..).and_then(|rest| collate::key_length(rest, self.order));
        key.map_or(place.len(), |length| partition + length)
    }

    /// The id in a place.
    pub fn id(self, place: &[u8]) -> Cow<'_, str> {
        let rest = place.get(self.key_length(place)..).unwrap_or_default();
        let escaped = id_length(rest).and_then(|length| rest.get(..length - 2)).unwrap_or_default();
        if !escaped.contains(&0) {
            return String::from_utf8_lossy(escaped);
        }
        let mut plain = Vec::with_capacity(escaped.len());
        let mut bytes = escaped.iter();
        while let Some(byte) = bytes.next() {
            plain.push(*byte);
            if *byte == 0 {
                bytes.next();
            }
        }
        Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
    }

    /// The prefix that places of one group share.
    pub fn group(self, place: &[u8], level: usize) -> &[u8] {
        let partition = self.partition_length(place);
        let key = place.get(partition..self.key_length(place)).unwrap_or_default();
        let group = collate::group_prefix(key, level, self.order);
        place.get(..partition + group.len()).unwrap_or(place)
    }
}

/// Appends a partition, the first part of a place.
pub(crate) fn write_partition(out: &mut Vec<u8>, partition: &str) {
    write_id(out, partition);
}

/// Appends an id.
pub(crate) fn write_id(out: &mut Vec<u8>, id: &str) {
    for &byte in id.as_bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(0xFF);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// The length of the id at the front, in bytes, including its terminator.
fn id_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
        match bytes.get(at + 1)? {
            0 => return Some(at + 2),
            _ => at += 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_split_into_their_parts() {
        for partitioned in [false, true] {
            let layout = Layout { order: Order::Unicode, partitioned };
            for id in ["a:b", "", "p\0q:\0", "é"] {
                let mut place = Vec::new();
                layout.write(&mut place, r#"["x",[1],2]"#, id, 300);
                assert_eq!(layout.id(&place), id);
                assert_eq!(layout.group(&place, usize::MAX).len(), layout.key_length(&place));
                assert!(layout.group(&place, 1).len() < layout.group(&place, 2).len());
            }
        }
    }

    #[test]
    fn places_sort_by_key_then_id_then_number() {
        let layout = Layout::default();
        let place = |key, id, ordinal| {
            let mut out = Vec::new();
            layout.write(&mut out, key, id, ordinal);
            out
        };
        let places = [
            place("1", "a", 0),
            place("1", "a", 1),
            place("1", "a", 500),
            place("1", "a\0", 0),
            place("1", "ab", 0),
            place("1", "b", 0),
            place("2", "", 0),
        ];
        assert!(places.is_sorted());
    }
}
