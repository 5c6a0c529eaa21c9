//! An entry of the change log: the document, the kind of change, and the collection's counts and size after it.

use crate::error::{Error, Result};
use crate::keys::{read_number, write_number};

/// The effect of a change on its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The document was inserted, perhaps after it had been deleted.
    Insert = 0,
    /// The document has a new revision. If it has branches, the new revision may not be the winner.
    Update = 1,
    /// The document was deleted, or a deleted document has a new revision.
    Delete = 2,
    /// Every revision of the document was purged: readers of the log forget it.
    Purge = 3,
}

/// The collection has no tombstones.
const NONE_DELETED: u8 = 0x40;
/// The number of the collection's tombstones follows.
const SOME_DELETED: u8 = 0x80;
/// The number of bytes that all documents take follows.
const HAS_BYTES: u8 = 0x20;

/// One change, as the log holds it under its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The change's place in its collection.
    pub sequence: u64,
    /// The effect on the document.
    pub kind: ChangeKind,
    /// How many documents the collection held after the change. The store reads its count from the newest change at a
    /// start.
    pub count: u64,
    /// How many tombstones the collection held after the change; `None` in entries of older versions.
    pub deleted: Option<u64>,
    /// How many bytes of BSON the documents took. Only the last change of a batch notes it: the newest change tells a
    /// restart the size, and no other is asked. Older versions never noted it.
    pub bytes: Option<u64>,
    /// The key bytes of the document's `_id`.
    pub id: &'a [u8],
}

impl<'a> Change<'a> {
    /// The entry's value: the kind and flags, the sequence minus the count (small and seldom changing, so it compresses
    /// well), the number of tombstones unless it is zero, the bytes if they are noted, the id.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.id.len() + 16);
        let flags = match self.deleted {
            None => 0,
            Some(0) => NONE_DELETED,
            Some(_) => SOME_DELETED,
        };
        let has_bytes = if self.bytes.is_some() { HAS_BYTES } else { 0 };
        out.push(self.kind as u8 | flags | has_bytes);
        write_number(&mut out, self.sequence.saturating_sub(self.count));
        if let Some(deleted) = self.deleted.filter(|&deleted| deleted > 0) {
            write_number(&mut out, deleted);
        }
        if let Some(bytes) = self.bytes {
            write_number(&mut out, bytes);
        }
        out.extend_from_slice(self.id);
        out
    }

    /// Reads an entry from its sequence and value.
    pub fn parse(sequence: u64, bytes: &'a [u8]) -> Result<Change<'a>> {
        let read = || {
            let (&first, rest) = bytes.split_first()?;
            let kind = match first & !(NONE_DELETED | SOME_DELETED | HAS_BYTES) {
                0 => ChangeKind::Insert,
                1 => ChangeKind::Update,
                2 => ChangeKind::Delete,
                3 => ChangeKind::Purge,
                _ => return None,
            };
            let (difference, rest) = read_number(rest)?;
            let (deleted, rest) = match first & (NONE_DELETED | SOME_DELETED) {
                0 => (None, rest),
                NONE_DELETED => (Some(0), rest),
                SOME_DELETED => read_number(rest).map(|(deleted, rest)| (Some(deleted), rest))?,
                _ => return None,
            };
            let (bytes, id) = match first & HAS_BYTES {
                0 => (None, rest),
                _ => read_number(rest).map(|(bytes, rest)| (Some(bytes), rest))?,
            };
            Some(Change { sequence, kind, count: sequence.checked_sub(difference)?, deleted, bytes, id })
        };
        read().ok_or_else(|| Error::Damaged(format!("change {sequence}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_parses_to_what_was_encoded() {
        for deleted in [None, Some(0), Some(300)] {
            for bytes in [None, Some(0), Some(70_000)] {
                for kind in [ChangeKind::Insert, ChangeKind::Update, ChangeKind::Delete, ChangeKind::Purge] {
                    let change = Change { sequence: 900, kind, count: 412, deleted, bytes, id: b"id" };
                    assert_eq!(Change::parse(900, &change.encode()).unwrap(), change);
                }
            }
        }
        assert!(Change::parse(900, &[9, 0]).is_err());
    }
}
