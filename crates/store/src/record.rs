//! What lies under a record key: a small header, then the document as raw BSON. And a tombstone, its shadow.
//!
//! Header: one byte of flags; the sequence of the last change; if the generation is not 1, the generation and the 16
//! bytes of the hash; in a capped collection, the position in insertion order. Numbers as [`write_number`] writes them.

use crate::error::{Error, Result};
use crate::keys::{read_number, write_number};
use crate::revision::Revision;
use diwan_value::Doc;

/// The record carries a revision: it is not the document's first.
const HAS_REVISION: u8 = 1;
/// The record carries its position in a capped collection.
const HAS_POSITION: u8 = 2;

/// A stored document, viewed.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The sequence of its last change in its collection.
    pub sequence: u64,
    /// The stored revision; `None` for a first one, see [`Record::revision`].
    stored_revision: Option<Revision>,
    /// In a capped collection, where it stands in the order of insertion.
    pub position: Option<u64>,
    /// The document.
    pub doc: Doc<'a>,
}

impl<'a> Record<'a> {
    /// Reads a record's value.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Record<'a>> {
        Record::try_parse(bytes).ok_or_else(|| Error::Damaged("a record's header".to_owned()))
    }

    #[inline]
    fn try_parse(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (&flags, rest) = bytes.split_first()?;
        let (sequence, mut rest) = read_number(rest)?;
        let mut stored_revision = None;
        if flags & HAS_REVISION != 0 {
            let (generation, after) = read_number(rest)?;
            let (hash, after) = after.split_first_chunk::<16>()?;
            stored_revision = Some(Revision { generation: generation.try_into().ok()?, hash: *hash });
            rest = after;
        }
        let mut position = None;
        if flags & HAS_POSITION != 0 {
            let (number, after) = read_number(rest)?;
            position = Some(number);
            rest = after;
        }
        (rest.len() >= 5).then_some(Record { sequence, stored_revision, position, doc: Doc::trusted(rest) })
    }

    /// A record of the empty document, for what cannot be.
    pub(crate) fn empty() -> Record<'static> {
        Record { sequence: 0, stored_revision: None, position: None, doc: Doc::EMPTY }
    }

    /// The generation of the winning revision.
    pub(crate) fn generation(&self) -> u32 {
        self.stored_revision.map_or(1, |revision| revision.generation)
    }

    /// The winning revision, computed if it is the first.
    pub fn revision(&self) -> Revision {
        self.stored_revision.unwrap_or_else(|| Revision::first(self.doc))
    }
}

/// The document of a record's value, for scans that need nothing else.
#[inline]
pub fn document(bytes: &[u8]) -> Option<Doc<'_>> {
    Record::try_parse(bytes).map(|record| record.doc)
}

/// Writes a record's value. `revision` is `None` for a first revision.
pub fn encode(sequence: u64, revision: Option<&Revision>, position: Option<u64>, doc: Doc<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(40 + doc.as_bytes().len());
    let flags =
        if revision.is_some() { HAS_REVISION } else { 0 } | if position.is_some() { HAS_POSITION } else { 0 };
    out.push(flags);
    write_number(&mut out, sequence);
    if let Some(revision) = revision {
        write_number(&mut out, revision.generation.into());
        out.extend_from_slice(&revision.hash);
    }
    if let Some(position) = position {
        write_number(&mut out, position);
    }
    out.extend_from_slice(doc.as_bytes());
    out
}

/// What remains of a deleted document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The sequence of the deletion.
    pub sequence: u64,
    /// The revision that the deletion minted.
    pub revision: Revision,
    /// When it was deleted, in seconds since the Unix epoch: what retention counts from.
    pub deleted_at: u64,
}

impl Tombstone {
    /// The tombstone's value: sequence, generation, hash, time.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        write_number(&mut out, self.sequence);
        write_number(&mut out, self.revision.generation.into());
        out.extend_from_slice(&self.revision.hash);
        write_number(&mut out, self.deleted_at);
        out
    }

    /// Reads a tombstone's value.
    pub fn parse(bytes: &[u8]) -> Result<Tombstone> {
        let read = || {
            let (sequence, rest) = read_number(bytes)?;
            let (generation, rest) = read_number(rest)?;
            let (hash, rest) = rest.split_first_chunk::<16>()?;
            let (deleted_at, _) = read_number(rest)?;
            let revision = Revision { generation: generation.try_into().ok()?, hash: *hash };
            Some(Tombstone { sequence, revision, deleted_at })
        };
        read().ok_or_else(|| Error::Damaged("a tombstone".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    #[test]
    fn a_first_revision_costs_no_bytes() {
        let document = doc! { "_id": 1 };
        let bytes = encode(5, None, None, document.as_doc());
        assert_eq!(bytes.len(), 2 + document.as_doc().as_bytes().len());
        let record = Record::parse(&bytes).unwrap();
        assert_eq!(record.sequence, 5);
        assert_eq!(record.revision(), Revision::first(document.as_doc()));
        assert_eq!(record.doc, document.as_doc());
    }

    #[test]
    fn later_revisions_and_positions_come_back() {
        let document = doc! { "_id": 1 };
        let revision = Revision::first(document.as_doc()).child(Some(document.as_doc()));
        let bytes = encode(700, Some(&revision), Some(9), document.as_doc());
        let record = Record::parse(&bytes).unwrap();
        assert_eq!((record.sequence, record.revision(), record.position), (700, revision, Some(9)));
        assert!(Record::parse(&bytes[..10]).is_err());
        let tombstone =
            Tombstone { sequence: 701, revision: revision.child(None), deleted_at: 1_700_000_000 };
        assert_eq!(Tombstone::parse(&tombstone.encode()).unwrap(), tombstone);
    }
}
