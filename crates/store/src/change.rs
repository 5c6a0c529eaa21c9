//! An entry of the change log: what happened to which document, and how many documents there were afterwards.

use crate::error::{Error, Result};
use crate::keys::{read_number, write_number};

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ChangeKind {
    Insert = 0,
    Update = 1,
    Delete = 2,
}

/// One change, as the log holds it under its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The change's place in its collection.
    pub sequence: u64,
    /// What it did.
    pub kind: ChangeKind,
    /// How many documents the collection held after it: the newest change tells a restart the count.
    pub count: u64,
    /// The key bytes of the document's `_id`.
    pub id: &'a [u8],
}

impl<'a> Change<'a> {
    /// The entry's value: the kind, the sequence less the count (small and seldom changing, so it compresses to
    /// nothing), the id.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.id.len() + 4);
        out.push(self.kind as u8);
        write_number(&mut out, self.sequence.saturating_sub(self.count));
        out.extend_from_slice(self.id);
        out
    }

    /// Reads an entry from its sequence and value.
    pub fn parse(sequence: u64, bytes: &'a [u8]) -> Result<Change<'a>> {
        let read = || {
            let (&kind, rest) = bytes.split_first()?;
            let kind = match kind {
                0 => ChangeKind::Insert,
                1 => ChangeKind::Update,
                2 => ChangeKind::Delete,
                _ => return None,
            };
            let (difference, id) = read_number(rest)?;
            Some(Change { sequence, kind, count: sequence.checked_sub(difference)?, id })
        };
        read().ok_or_else(|| Error::Damaged(format!("change {sequence}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back() {
        let change = Change { sequence: 900, kind: ChangeKind::Update, count: 412, id: b"id" };
        assert_eq!(Change::parse(900, &change.encode()).unwrap(), change);
        assert!(Change::parse(900, &[9, 0]).is_err());
    }
}
