//! The stored values of a document: its record (a small header, then the document as raw BSON), its tombstone after a
//! deletion, and the bodies of revisions that do not win.
//!
//! A record's header: one byte of flags; the sequence of the last change; if the revision is not the first, the
//! generation and the 16 bytes of the hash; in a capped collection, the position in insertion order; if there are
//! attachments, the length of their list and the list. Numbers are encoded by [`write_number`].

use crate::blob::{Attachment, attachment};
use crate::error::{Error, Result};
use crate::keys::{read_number, write_number};
use crate::revision::Revision;
use diwan_value::Doc;

/// The record holds a revision: it is not the document's first, or it was minted on another server.
const HAS_REVISION: u8 = 1;
/// The record holds its position in a capped collection.
const HAS_POSITION: u8 = 2;
/// A list of attachments precedes the document.
const HAS_ATTACHMENTS: u8 = 4;
/// The revision tree has branches beside the winner's.
const HAS_BRANCHES: u8 = 8;
/// The revision's generation is above 1, but none of its ancestors is known.
const IS_ROOT: u8 = 16;
/// In a tombstone or body: a document follows. (A tombstone may also have the three flags above.)
const HAS_BODY: u8 = 1;

/// The marks of a header about the revision tree beside the winner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The tree has other branches.
    pub branches: bool,
    /// The winner's ancestors are unknown, although its generation is above 1.
    pub root: bool,
}

impl Marks {
    fn flags(self) -> u8 {
        (if self.branches { HAS_BRANCHES } else { 0 }) | if self.root { IS_ROOT } else { 0 }
    }

    fn of(flags: u8) -> Marks {
        Marks { branches: flags & HAS_BRANCHES != 0, root: flags & IS_ROOT != 0 }
    }
}

/// A parsed record, borrowed from its stored bytes.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The sequence of its last change in its collection.
    pub sequence: u64,
    /// The stored revision; `None` for a first one, see [`Record::revision`].
    stored_revision: Option<Revision>,
    /// In a capped collection, the position in the order of insertion.
    pub position: Option<u64>,
    pub(crate) marks: Marks,
    /// The encoded list of attachments; empty if there are none.
    pub(crate) attachments: &'a [u8],
    /// The document.
    pub doc: Doc<'a>,
}

impl<'a> Record<'a> {
    /// Parses a record.
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
        let mut attachments: &[u8] = &[];
        if flags & HAS_ATTACHMENTS != 0 {
            (attachments, rest) = split_list(rest)?;
        }
        (rest.len() >= 5).then_some(Record {
            sequence,
            stored_revision,
            position,
            marks: Marks::of(flags),
            attachments,
            doc: Doc::trusted(rest),
        })
    }

    /// A record of the empty document, for code paths that cannot be reached.
    pub(crate) fn empty() -> Record<'static> {
        Record {
            sequence: 0,
            stored_revision: None,
            position: None,
            marks: Marks::default(),
            attachments: &[],
            doc: Doc::EMPTY,
        }
    }

    /// The generation of the winning revision.
    pub fn generation(&self) -> u32 {
        self.stored_revision.map_or(1, |revision| revision.generation)
    }

    /// The winning revision, computed if it is the first.
    pub fn revision(&self) -> Revision {
        self.stored_revision.unwrap_or_else(|| Revision::mint(None, false, Some(self.doc), self.attachments))
    }

    /// Whether the winning revision is the document's first, which follows from its bytes.
    pub(crate) fn has_first_revision(&self) -> bool {
        self.stored_revision.is_none()
    }

    /// Whether the revision tree has branches beside the winner's. They may be deleted ones.
    pub fn has_branches(&self) -> bool {
        self.marks.branches
    }

    /// Whether the document has attachments.
    pub fn has_attachments(&self) -> bool {
        !self.attachments.is_empty()
    }

    /// The document's attachments.
    pub fn attachments(&self) -> Result<Vec<Attachment>> {
        if self.attachments.is_empty() { Ok(Vec::new()) } else { attachment::decode(self.attachments) }
    }
}

/// The document in a record's value, for scans that need nothing else.
#[inline]
pub(crate) fn document(bytes: &[u8]) -> Option<Doc<'_>> {
    Record::try_parse(bytes).map(|record| record.doc)
}

/// The fields of a record's header, for encoding.
pub(crate) struct Header<'a> {
    pub sequence: u64,
    /// `None` for a first revision, which is computed from the document.
    pub revision: Option<Revision>,
    pub position: Option<u64>,
    pub marks: Marks,
    pub attachments: &'a [u8],
}

impl Header<'_> {
    /// Encodes the record's value.
    pub fn encode(&self, doc: Doc<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(40 + self.attachments.len() + doc.as_bytes().len());
        let flags = if self.revision.is_some() { HAS_REVISION } else { 0 }
            | if self.position.is_some() { HAS_POSITION } else { 0 }
            | if self.attachments.is_empty() { 0 } else { HAS_ATTACHMENTS }
            | self.marks.flags();
        out.push(flags);
        write_number(&mut out, self.sequence);
        if let Some(revision) = self.revision {
            write_number(&mut out, revision.generation.into());
            out.extend_from_slice(&revision.hash);
        }
        if let Some(position) = self.position {
            write_number(&mut out, position);
        }
        if !self.attachments.is_empty() {
            write_list(&mut out, self.attachments);
        }
        out.extend_from_slice(doc.as_bytes());
        out
    }
}

/// Writes the length of the bytes, then the bytes.
pub(crate) fn write_list(out: &mut Vec<u8>, bytes: &[u8]) {
    write_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what [`write_list`] wrote. Returns it with the rest of the bytes.
pub(crate) fn split_list(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = read_number(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// The stored value of a deleted document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tombstone<'a> {
    /// The sequence of the deletion.
    pub sequence: u64,
    /// The deletion's revision. Its generation is 0 if the document was purged and only its last change remains.
    pub revision: Revision,
    /// When the document was deleted, in seconds since the Unix epoch. The retention period begins then.
    pub deleted_at: u64,
    pub(crate) marks: Marks,
    /// The encoded list of the deletion's attachments, mostly empty.
    pub(crate) attachments: &'a [u8],
    /// The deletion's document if it has fields, or a document with only the `_id` if the key does not restore it
    /// exactly.
    pub(crate) doc: Option<Doc<'a>>,
}

impl<'a> Tombstone<'a> {
    /// Encodes the tombstone: sequence, generation, hash, time; then, unless all of them are empty, flags, the
    /// attachments' list with its length, the document.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        write_number(&mut out, self.sequence);
        write_number(&mut out, self.revision.generation.into());
        out.extend_from_slice(&self.revision.hash);
        write_number(&mut out, self.deleted_at);
        let flags = self.marks.flags()
            | if self.attachments.is_empty() { 0 } else { HAS_ATTACHMENTS }
            | if self.doc.is_some() { HAS_BODY } else { 0 };
        if flags != 0 {
            out.push(flags);
            if !self.attachments.is_empty() {
                write_list(&mut out, self.attachments);
            }
            if let Some(doc) = self.doc {
                out.extend_from_slice(doc.as_bytes());
            }
        }
        out
    }

    /// Parses a tombstone.
    pub fn parse(bytes: &'a [u8]) -> Result<Tombstone<'a>> {
        let read = || {
            let (sequence, rest) = read_number(bytes)?;
            let (generation, rest) = read_number(rest)?;
            let (hash, rest) = rest.split_first_chunk::<16>()?;
            let (deleted_at, rest) = read_number(rest)?;
            let (flags, mut rest) = rest.split_first().map_or((0, rest), |(&flags, rest)| (flags, rest));
            let mut attachments: &[u8] = &[];
            if flags & HAS_ATTACHMENTS != 0 {
                (attachments, rest) = split_list(rest)?;
            }
            let doc = match flags & HAS_BODY != 0 {
                true => Some(Doc::trusted(rest.get(4..).map(|_| rest)?)),
                false => None,
            };
            let revision = Revision { generation: generation.try_into().ok()?, hash: *hash };
            let marks = Marks::of(flags);
            Some(Tombstone { sequence, revision, deleted_at, marks, attachments, doc })
        };
        read().ok_or_else(|| Error::Damaged("a tombstone".to_owned()))
    }

    /// Whether the document was purged and so has no revision.
    pub fn is_purged(&self) -> bool {
        self.revision.generation == 0
    }
}

/// The stored body of a revision that is not the winner: a conflict's, or a superseded one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Body<'a> {
    /// The revision is a deletion.
    pub deleted: bool,
    /// When the next revision superseded it, in seconds since the Unix epoch; `None` for a leaf of the tree.
    pub superseded_at: Option<u64>,
    pub attachments: &'a [u8],
    /// The document; a deletion mostly has none.
    pub doc: Option<Doc<'a>>,
}

const BODY_DELETED: u8 = 2;
const BODY_SUPERSEDED: u8 = 8;

impl<'a> Body<'a> {
    /// Encodes the body: flags, the time if it was superseded, the attachments' list with its length, the document.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = self.doc.map_or(&[][..], |doc| doc.as_bytes());
        let mut out = Vec::with_capacity(16 + self.attachments.len() + bytes.len());
        out.push(
            if self.doc.is_some() { HAS_BODY } else { 0 }
                | if self.deleted { BODY_DELETED } else { 0 }
                | if self.attachments.is_empty() { 0 } else { HAS_ATTACHMENTS }
                | if self.superseded_at.is_some() { BODY_SUPERSEDED } else { 0 },
        );
        if let Some(seconds) = self.superseded_at {
            write_number(&mut out, seconds);
        }
        if !self.attachments.is_empty() {
            write_list(&mut out, self.attachments);
        }
        out.extend_from_slice(bytes);
        out
    }

    /// Parses a body.
    pub fn parse(bytes: &'a [u8]) -> Result<Body<'a>> {
        let read = || {
            let (&flags, mut rest) = bytes.split_first()?;
            let mut superseded_at = None;
            if flags & BODY_SUPERSEDED != 0 {
                let (seconds, after) = read_number(rest)?;
                superseded_at = Some(seconds);
                rest = after;
            }
            let mut attachments: &[u8] = &[];
            if flags & HAS_ATTACHMENTS != 0 {
                (attachments, rest) = split_list(rest)?;
            }
            let doc = match flags & HAS_BODY != 0 {
                true => Some(Doc::trusted(rest.get(4..).map(|_| rest)?)),
                false => None,
            };
            Some(Body { deleted: flags & BODY_DELETED != 0, superseded_at, attachments, doc })
        };
        read().ok_or_else(|| Error::Damaged("the body of a revision".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    fn header(sequence: u64) -> Header<'static> {
        Header { sequence, revision: None, position: None, marks: Marks::default(), attachments: &[] }
    }

    #[test]
    fn a_record_does_not_store_a_first_revision() {
        let document = doc! { "_id": 1 };
        let bytes = header(5).encode(document.as_doc());
        assert_eq!(bytes.len(), 2 + document.as_doc().as_bytes().len());
        let record = Record::parse(&bytes).unwrap();
        assert_eq!(record.sequence, 5);
        assert_eq!(record.revision(), Revision::first(document.as_doc()));
        assert_eq!(record.doc, document.as_doc());
    }

    #[test]
    fn a_record_parses_to_the_header_that_was_encoded() {
        let document = doc! { "_id": 1 };
        let revision = Revision::first(document.as_doc()).child(Some(document.as_doc()));
        let marks = Marks { branches: true, root: false };
        let bytes = Header {
            revision: Some(revision),
            position: Some(9),
            marks,
            attachments: b"some list",
            ..header(700)
        }
        .encode(document.as_doc());
        let record = Record::parse(&bytes).unwrap();
        assert_eq!((record.sequence, record.revision(), record.position), (700, revision, Some(9)));
        assert_eq!(
            (record.marks, record.attachments, record.doc),
            (marks, &b"some list"[..], document.as_doc())
        );
        assert!(Record::parse(&bytes[..10]).is_err());
    }

    #[test]
    fn tombstones_and_bodies_parse_to_what_was_encoded() {
        let document = doc! { "_id": 1, "why": "sold" };
        let revision = Revision::first(document.as_doc()).child(None);
        let plain = Tombstone {
            sequence: 701,
            revision,
            deleted_at: 1_700_000_000,
            marks: Marks::default(),
            attachments: &[],
            doc: None,
        };
        let full = Tombstone {
            marks: Marks { branches: true, root: true },
            attachments: b"list",
            doc: Some(document.as_doc()),
            ..plain
        };
        for tombstone in [plain, full] {
            assert_eq!(Tombstone::parse(&tombstone.encode()).unwrap(), tombstone);
        }
        assert!(Tombstone::parse(&full.encode()[..30]).is_err());
        for superseded_at in [None, Some(1_700_000_000)] {
            for (deleted, attachments, doc) in
                [(true, &[][..], None), (false, b"list", Some(document.as_doc()))]
            {
                let body = Body { deleted, superseded_at, attachments, doc };
                assert_eq!(Body::parse(&body.encode()).unwrap(), body);
            }
        }
        assert!(Body::parse(&[]).is_err() && Body::parse(&[1, 2]).is_err());
    }
}
