//! An entry of the change log: what happened to which document, and how many documents there were afterwards, and how
//! many deleted ones were remembered.

use crate::error::{Error, Result};
use crate::keys::{read_number, write_number};

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A document came to be, perhaps after it had been deleted.
    Insert = 0,
    /// A document has another revision; if it has branches, perhaps not its winning one.
    Update = 1,
    /// A document was deleted, or a deleted one has another revision.
    Delete = 2,
    /// Every revision of a document was purged: readers of the log forget it.
    Purge = 3,
}

/// No deleted document is remembered.
const NONE_DELETED: u8 = 0x40;
/// The number of deleted documents that are remembered follows.
const SOME_DELETED: u8 = 0x80;

/// One change, as the log holds it under its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The change's place in its collection.
    pub sequence: u64,
    /// What it did.
    pub kind: ChangeKind,
    /// How many documents the collection held after it: the newest change tells a restart the count.
    pub count: u64,
    /// How many deleted documents were remembered; older versions did not note it.
    pub deleted: Option<u64>,
    /// The key bytes of the document's `_id`.
    pub id: &'a [u8],
}

impl<'a> Change<'a> {
    /// The entry's value: the kind and flags, the sequence less the count (small and seldom changing, so it compresses to
    /// nothing), the number of deleted documents if there are any, the id.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.id.len() + 6);
        let flags = match self.deleted {
            None => 0,
            Some(0) => NONE_DELETED,
            Some(_) => SOME_DELETED,
        };
        out.push(self.kind as u8 | flags);
        write_number(&mut out, self.sequence.saturating_sub(self.count));
        if let Some(deleted) = self.deleted.filter(|&deleted| deleted > 0) {
            write_number(&mut out, deleted);
        }
        out.extend_from_slice(self.id);
        out
    }

    /// Reads an entry from its sequence and value.
    pub fn parse(sequence: u64, bytes: &'a [u8]) -> Result<Change<'a>> {
        let read = || {
            let (&first, rest) = bytes.split_first()?;
            let kind = match first & !(NONE_DELETED | SOME_DELETED) {
                0 => ChangeKind::Insert,
                1 => ChangeKind::Update,
                2 => ChangeKind::Delete,
                3 => ChangeKind::Purge,
                _ => return None,
            };
            let (difference, rest) = read_number(rest)?;
            let (deleted, id) = match first & (NONE_DELETED | SOME_DELETED) {
                0 => (None, rest),
                NONE_DELETED => (Some(0), rest),
                SOME_DELETED => read_number(rest).map(|(deleted, rest)| (Some(deleted), rest))?,
                _ => return None,
            };
            Some(Change { sequence, kind, count: sequence.checked_sub(difference)?, deleted, id })
        };
        read().ok_or_else(|| Error::Damaged(format!("change {sequence}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back() {
        for deleted in [None, Some(0), Some(300)] {
            for kind in [ChangeKind::Insert, ChangeKind::Update, ChangeKind::Delete, ChangeKind::Purge] {
                let change = Change { sequence: 900, kind, count: 412, deleted, id: b"id" };
                assert_eq!(Change::parse(900, &change.encode()).unwrap(), change);
            }
        }
        assert!(Change::parse(900, &[9, 0]).is_err());
    }
}
