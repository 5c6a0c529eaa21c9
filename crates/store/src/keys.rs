//! Every key that the store writes, in one place.
//!
//! A key consists of a space, a prefix that names the owner (a collection or an index), and order-preserving bytes. The
//! numbers of collections and indexes are never used again. [`describe`] makes a raw key readable.

use crate::blob::BlobId;
use crate::namespace::Namespace;
use crate::revision::Revision;
use diwan_kv::{Bytes, KeyRange, Space};
use std::ops::Bound;

/// The number of a collection, unique in a store for all time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectionId(pub u32);

/// The number of an index, unique in a store for all time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId(pub u32);

/// The kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// `Meta "f"`: the version of the storage format and the next free number.
    Format,
    /// `Meta "c" database 0 collection`: a collection's catalog document.
    Catalog {
        /// The database's name.
        database: &'a str,
        /// The collection's name.
        collection: &'a str,
    },
    /// `Meta "x" number`: a mark that the keys of a dropped collection or index must still be deleted.
    Dropped(u32),
    /// `Meta "s" collection`: a collection's counts and sizes, noted at close, and how far its tombstones have expired.
    Size(CollectionId),
    /// `Meta "z"`: the store was closed, and nothing has been written since; the notes of sizes are exact.
    Closed,
    /// `Meta "m"`: a move into this store is not complete (see [`incoming`](crate::incoming)).
    Incoming,
    /// `Meta "h"`: what is stored of the log of events as a whole.
    EventHeader,
    /// `Meta "w" database 0 collection`: a scope whose changes are recorded as events: a collection, a database (without
    /// the 0), or everything (nothing but the letter).
    RecordedScope {
        /// The database's name.
        database: Option<&'a str>,
        /// The collection's name.
        collection: Option<&'a str>,
    },
    /// `Meta "e"`: every body of a superseded revision has its [`Key::DueBody`].
    DueBodiesComplete,
    /// `Meta "r" session statement`: the result of a retryable write.
    Retry {
        /// The session's identifier as the client gave it.
        session: &'a [u8],
        /// The number of the command's first statement of this batch.
        statement: u32,
    },
    /// `Meta "a" collection "b" blob`: the head of a complete blob.
    Blob(CollectionId, BlobId),
    /// `Meta "a" collection "h" hash`: the blob with this content.
    BlobContent(CollectionId, &'a [u8; 32]),
    /// `Meta "a" collection "r" blob generation hash id`: a reference from a stored body of a document to a blob.
    BlobReference {
        /// The collection of both.
        collection: CollectionId,
        /// The blob.
        blob: BlobId,
        /// The revision of the body.
        revision: Revision,
        /// The key bytes of the document's `_id`.
        id: &'a [u8],
    },
    /// `Meta "l" collection blob stamp`: a mark that a blob may have no references.
    LooseBlob {
        /// The blob's collection.
        collection: CollectionId,
        /// The blob.
        blob: BlobId,
        /// Distinguishes several marks of one blob.
        stamp: u64,
    },
    /// `Attachments collection blob chunk`: a run of a blob's bytes.
    BlobChunk(CollectionId, BlobId, u64),
    /// `Meta "d" collection name`: a local document, which has no revisions and is not replicated.
    Local(CollectionId, &'a [u8]),
    /// `Meta "t" collection name`: a setting of a collection.
    Setting(CollectionId, &'a str),
    /// `Meta "v" collection index`: the header of a view index.
    ViewHeader(CollectionId, IndexId),
    /// `Indexes index "n" view node`: a node of a view's tree.
    ViewNode(IndexId, u32, u64),
    /// `Indexes index "d" id`: the rows that a document emitted into a view index.
    ViewDocument(IndexId, &'a [u8]),
    /// `Indexes index "r" view run chunk`: sorted rows of a view index that is being built.
    ViewRun {
        /// The index.
        index: IndexId,
        /// The view's number in the index.
        view: u32,
        /// The run's number.
        run: u64,
        /// The chunk's number in the run.
        chunk: u64,
    },
    /// `Indexes number "s" id`: a document that a scan has found, of more than fit in memory.
    Seen(IndexId, &'a [u8]),
    /// `Revisions 0 time collection id generation hash`: a body that was superseded at this time, in seconds since 1970. In
    /// the order of time over all collections; number 0 is no collection's. A hint: the body may be gone.
    DueBody {
        /// When the body was superseded.
        superseded_at: u64,
        /// The document's collection.
        collection: CollectionId,
        /// The key bytes of the document's `_id`.
        id: &'a [u8],
        /// Whose body it is.
        revision: Revision,
    },
    /// `Records collection id`: a document.
    Record(CollectionId, &'a [u8]),
    /// `Indexes index key`: an entry of a unique index.
    UniqueEntry(IndexId, &'a [u8]),
    /// `Indexes index key id`: an entry of any other index.
    Entry(IndexId, &'a [u8], &'a [u8]),
    /// `Log collection sequence`: a change.
    Change(CollectionId, u64),
    /// `Revisions collection id 0`: a deleted document's tombstone.
    Tombstone(CollectionId, &'a [u8]),
    /// `Revisions collection id generation`: the hash of an earlier revision. Generations count from 1.
    Ancestor(CollectionId, &'a [u8], u32),
    /// `Revisions collection id 0xFE`: the branches of a document's revision tree other than the winner's.
    Branches(CollectionId, &'a [u8]),
    /// `Revisions collection id 0xFF generation hash`: the body of a revision that is not the winner.
    Body(CollectionId, &'a [u8], Revision),
}

// No number that [`write_number`] writes begins with these.
const BRANCHES: u8 = 0xFE;
const BODY: u8 = 0xFF;
/// The first byte of the keys in `Revisions` that are in the order of time.
const DUE_BODIES: u8 = 0;

impl Key<'_> {
    /// The space that the key lies in.
    pub fn space(&self) -> Space {
        match self {
            Key::Format | Key::Catalog { .. } | Key::Dropped(_) | Key::Size(_) | Key::Retry { .. } => {
                Space::Meta
            }
            Key::Closed | Key::Incoming | Key::DueBodiesComplete => Space::Meta,
            Key::EventHeader | Key::RecordedScope { .. } => Space::Meta,
            Key::Blob(..) | Key::BlobContent(..) | Key::BlobReference { .. } | Key::LooseBlob { .. } => {
                Space::Meta
            }
            Key::Local(..) | Key::Setting(..) | Key::ViewHeader(..) => Space::Meta,
            Key::ViewNode(..) | Key::ViewDocument(..) | Key::ViewRun { .. } | Key::Seen(..) => Space::Indexes,
            Key::BlobChunk(..) => Space::Attachments,
            Key::Record(..) => Space::Records,
            Key::UniqueEntry(..) | Key::Entry(..) => Space::Indexes,
            Key::Change(..) => Space::Log,
            Key::Tombstone(..)
            | Key::Ancestor(..)
            | Key::Branches(..)
            | Key::Body(..)
            | Key::DueBody { .. } => Space::Revisions,
        }
    }

    /// The key's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        // In `Meta`, the first byte names the kind. In the other spaces, the key begins with the owner's number;
        // in a capped collection's order of insertion, a 0 precedes it.
        let mut out = Vec::with_capacity(32);
        match *self {
            Key::Format => out.push(b'f'),
            Key::Catalog { database, collection } => {
                out.push(b'c');
                out.extend_from_slice(database.as_bytes());
                out.push(0);
                out.extend_from_slice(collection.as_bytes());
            }
            Key::Dropped(number) => {
                out.push(b'x');
                write_number(&mut out, number.into());
            }
            Key::Size(collection) => {
                out.push(b's');
                write_number(&mut out, collection.0.into());
            }
            Key::Closed => out.push(b'z'),
            Key::Incoming => out.push(b'm'),
            Key::DueBodiesComplete => out.push(b'e'),
            Key::EventHeader => out.push(b'h'),
            Key::RecordedScope { database, collection } => {
                out.extend_from_slice(recorded_scopes_prefix());
                out.extend_from_slice(database.unwrap_or_default().as_bytes());
                if let Some(collection) = collection {
                    out.push(0);
                    out.extend_from_slice(collection.as_bytes());
                }
            }
            Key::Retry { session, statement } => {
                out.extend_from_slice(&retry_prefix(session));
                out.extend_from_slice(&statement.to_be_bytes());
            }
            Key::Blob(collection, blob) => {
                out.extend_from_slice(&blobs_prefix(collection, BlobKeys::Heads));
                out.extend_from_slice(&blob.0);
            }
            Key::BlobContent(collection, hash) => {
                out.extend_from_slice(&blobs_prefix(collection, BlobKeys::Contents));
                out.extend_from_slice(hash);
            }
            Key::BlobReference { collection, blob, revision, id } => {
                out.extend_from_slice(&blobs_prefix(collection, BlobKeys::References));
                out.extend_from_slice(&blob.0);
                out.extend_from_slice(&revision.generation.to_be_bytes());
                out.extend_from_slice(&revision.hash);
                out.extend_from_slice(id);
            }
            Key::LooseBlob { collection, blob, stamp } => {
                out.extend_from_slice(&loose_prefix(Some(collection)));
                out.extend_from_slice(&blob.0);
                out.extend_from_slice(&stamp.to_be_bytes());
            }
            Key::BlobChunk(collection, blob, chunk) => {
                write_number(&mut out, collection.0.into());
                out.extend_from_slice(&blob.0);
                write_number(&mut out, chunk);
            }
            Key::Local(collection, name) => {
                out.extend_from_slice(&locals_prefix(collection));
                out.extend_from_slice(name);
            }
            Key::Setting(collection, name) => {
                out.extend_from_slice(&settings_prefix(collection));
                out.extend_from_slice(name.as_bytes());
            }
            Key::ViewHeader(collection, index) => {
                out.extend_from_slice(&views_prefix(collection));
                write_number(&mut out, index.0.into());
            }
            Key::ViewNode(index, view, node) => {
                out.extend_from_slice(&view_part(index, ViewPart::Nodes));
                write_number(&mut out, view.into());
                write_number(&mut out, node);
            }
            Key::ViewDocument(index, id) => {
                out.extend_from_slice(&view_part(index, ViewPart::Documents));
                out.extend_from_slice(id);
            }
            Key::ViewRun { index, view, run, chunk } => {
                out.extend_from_slice(&view_part(index, ViewPart::Runs));
                write_number(&mut out, view.into());
                write_number(&mut out, run);
                write_number(&mut out, chunk);
            }
            Key::Seen(number, id) => {
                write_number(&mut out, number.0.into());
                out.push(b's');
                out.extend_from_slice(id);
            }
            Key::DueBody { superseded_at, collection, id, revision } => {
                out.reserve(id.len());
                out.push(DUE_BODIES);
                write_number(&mut out, superseded_at);
                write_number(&mut out, collection.0.into());
                out.extend_from_slice(id);
                write_number(&mut out, revision.generation.into());
                out.extend_from_slice(&revision.hash);
            }
            Key::Record(collection, id) => {
                write_number(&mut out, collection.0.into());
                out.extend_from_slice(id);
            }
            Key::UniqueEntry(index, key) => {
                write_number(&mut out, index.0.into());
                out.extend_from_slice(key);
            }
            Key::Entry(index, key, id) => {
                write_number(&mut out, index.0.into());
                out.extend_from_slice(key);
                out.extend_from_slice(id);
            }
            Key::Change(collection, sequence) => {
                write_number(&mut out, collection.0.into());
                write_number(&mut out, sequence);
            }
            Key::Tombstone(collection, id) => {
                write_number(&mut out, collection.0.into());
                out.extend_from_slice(id);
                out.push(0);
            }
            Key::Ancestor(collection, id, generation) => {
                write_number(&mut out, collection.0.into());
                out.extend_from_slice(id);
                write_number(&mut out, generation.into());
            }
            Key::Branches(collection, id) => {
                write_number(&mut out, collection.0.into());
                out.extend_from_slice(id);
                out.push(BRANCHES);
            }
            Key::Body(collection, id, revision) => {
                out.reserve(id.len());
                write_number(&mut out, collection.0.into());
                out.extend_from_slice(id);
                out.push(BODY);
                write_number(&mut out, revision.generation.into());
                out.extend_from_slice(&revision.hash);
            }
        }
        out
    }
}

/// The first byte of the keys of recorded scopes.
pub fn recorded_scopes_prefix() -> &'static [u8] {
    b"w"
}

/// The first byte of all retry keys.
pub fn all_retries_prefix() -> &'static [u8] {
    b"r"
}

/// The first bytes of all retry keys of a session.
pub(crate) fn retry_prefix(session: &[u8]) -> Vec<u8> {
    let mut out = vec![b'r'];
    write_number(&mut out, session.len() as u64);
    out.extend_from_slice(session);
    out
}

/// A kind of keys in `Meta` that belong to a collection's blobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobKeys {
    /// All three kinds.
    All,
    /// [`Key::Blob`].
    Heads,
    /// [`Key::BlobContent`].
    Contents,
    /// [`Key::BlobReference`].
    References,
}

/// The first bytes of a collection's keys of this kind.
pub fn blobs_prefix(collection: CollectionId, kind: BlobKeys) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.push(b'a');
    write_number(&mut out, collection.0.into());
    match kind {
        BlobKeys::All => {}
        BlobKeys::Heads => out.push(b'b'),
        BlobKeys::Contents => out.push(b'h'),
        BlobKeys::References => out.push(b'r'),
    }
    out
}

/// The first bytes of the loose marks of a collection's blobs, or of all collections.
pub(crate) fn loose_prefix(collection: Option<CollectionId>) -> Vec<u8> {
    let mut out = vec![b'l'];
    if let Some(collection) = collection {
        write_number(&mut out, collection.0.into());
    }
    out
}

/// The first bytes of a collection's local documents.
pub(crate) fn locals_prefix(collection: CollectionId) -> Vec<u8> {
    let mut out = vec![b'd'];
    write_number(&mut out, collection.0.into());
    out
}

/// The first bytes of the notes of all collections' sizes, which their numbers follow.
pub fn sizes_prefix() -> &'static [u8] {
    b"s"
}

/// The first bytes of the settings of all collections.
pub fn all_settings_prefix() -> &'static [u8] {
    b"t"
}

/// The first bytes of a collection's settings.
pub(crate) fn settings_prefix(collection: CollectionId) -> Vec<u8> {
    let mut out = vec![b't'];
    write_number(&mut out, collection.0.into());
    out
}

/// The first bytes of the headers of a collection's view indexes.
pub(crate) fn views_prefix(collection: CollectionId) -> Vec<u8> {
    let mut out = vec![b'v'];
    write_number(&mut out, collection.0.into());
    out
}

/// A part of a view index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewPart {
    /// The nodes of the trees.
    Nodes,
    /// The emitted rows of each document.
    Documents,
    /// Sorted rows that are not in a tree yet.
    Runs,
}

/// The first bytes of a part of a view index.
pub fn view_part(index: IndexId, part: ViewPart) -> Vec<u8> {
    let mut out = index_prefix(index);
    out.push(match part {
        ViewPart::Nodes => b'n',
        ViewPart::Documents => b'd',
        ViewPart::Runs => b'r',
    });
    out
}

/// The kind of a key in `Revisions`, by the suffix that follows the document's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RevisionKey {
    /// [`Key::Tombstone`].
    Tombstone,
    /// [`Key::Ancestor`].
    Ancestor(u32),
    /// [`Key::Branches`].
    Branches,
    /// [`Key::Body`].
    Body(Revision),
}

impl RevisionKey {
    /// Parses the suffix that follows the id.
    pub fn parse(suffix: &[u8]) -> Option<RevisionKey> {
        Some(match suffix {
            [0] => RevisionKey::Tombstone,
            [BRANCHES] => RevisionKey::Branches,
            [BODY, rest @ ..] => RevisionKey::Body(read_revision(rest)?),
            _ => match read_number(suffix)? {
                (generation, []) if generation > 0 => RevisionKey::Ancestor(generation.try_into().ok()?),
                _ => return None,
            },
        })
    }

    /// Splits a key without its collection's prefix into the document's id and the key's kind.
    pub fn split(rest: &[u8]) -> Option<(&[u8], RevisionKey)> {
        let length = diwan_value::key::skip(rest, diwan_value::key::Direction::Ascending)?;
        let (id, suffix) = rest.split_at_checked(length)?;
        Some((id, RevisionKey::parse(suffix)?))
    }
}

/// A revision at the end of a key.
fn read_revision(bytes: &[u8]) -> Option<Revision> {
    let (generation, hash) = read_number(bytes)?;
    Some(Revision {
        generation: u32::try_from(generation).ok().filter(|&generation| generation > 0)?,
        hash: hash.try_into().ok()?,
    })
}

/// The bodies that were superseded before `oldest` (seconds since 1970), the oldest first.
pub fn due_bodies(oldest: u64) -> KeyRange {
    let mut end = vec![DUE_BODIES];
    write_number(&mut end, oldest);
    KeyRange::half_open(vec![DUE_BODIES], end)
}

/// All keys of `Revisions` that belong to no collection: those of [`Key::DueBody`].
pub fn all_due_bodies() -> KeyRange {
    KeyRange::prefix(&[DUE_BODIES])
}

/// The collection, the document's id and the revision in the bytes of a [`Key::DueBody`].
pub fn split_due_body(key: &[u8]) -> Option<(CollectionId, &[u8], Revision)> {
    let (_, rest) = read_number(key.strip_prefix(&[DUE_BODIES])?)?;
    let (collection, rest) = read_number(rest)?;
    let length = diwan_value::key::skip(rest, diwan_value::key::Direction::Ascending)?;
    let (id, revision) = rest.split_at_checked(length)?;
    Some((CollectionId(u32::try_from(collection).ok()?), id, read_revision(revision)?))
}

/// The first byte of all catalog keys.
pub(crate) fn catalog_prefix() -> &'static [u8] {
    b"c"
}

/// The name in the key of a catalog entry.
pub(crate) fn catalog_name(key: &[u8]) -> Option<Namespace> {
    let name = std::str::from_utf8(key.get(1..)?).ok()?;
    let (database, collection) = name.split_once('\0')?;
    Some(Namespace { database: database.to_owned(), collection: collection.to_owned() })
}

/// The first bytes of the marks of dropped and reserved numbers.
pub(crate) fn dropped_prefix() -> &'static [u8] {
    b"x"
}

/// The first bytes of a collection's keys in `Records`, `Log` and `Revisions`.
pub fn collection_prefix(collection: CollectionId) -> Vec<u8> {
    let mut out = Vec::with_capacity(5);
    write_number(&mut out, collection.0.into());
    out
}

/// The first bytes of all entries of an index.
pub fn index_prefix(index: IndexId) -> Vec<u8> {
    let mut out = Vec::with_capacity(5);
    write_number(&mut out, index.0.into());
    out
}

/// The first bytes, in `Indexes`, of a capped collection's order of insertion. No index has the number 0.
pub fn natural_prefix(collection: CollectionId) -> Vec<u8> {
    let mut out = vec![0];
    write_number(&mut out, collection.0.into());
    out
}

/// The keys under `prefix` whose suffix is greater than `after`; all of them if it is `None`.
pub(crate) fn range_after(prefix: &[u8], after: Option<&[u8]>) -> KeyRange {
    let whole = KeyRange::prefix(prefix);
    match after {
        None => whole,
        Some(suffix) => KeyRange::new(Bound::Excluded(Bytes::from([prefix, suffix].concat())), whole.end),
    }
}

/// The changes of a collection with sequences greater than `since`.
pub(crate) fn changes_after(collection: CollectionId, since: u64) -> KeyRange {
    let mut suffix = Vec::with_capacity(9);
    write_number(&mut suffix, since);
    range_after(&collection_prefix(collection), Some(&suffix))
}

/// Writes a number so that byte order is numeric order. A number below 240 is one byte. Any other is 239 + the count of
/// its significant bytes, then these bytes, big-endian.
pub fn write_number(out: &mut Vec<u8>, number: u64) {
    if number < 240 {
        out.push(number as u8);
    } else {
        let bytes = number.to_be_bytes();
        let skip = number.leading_zeros() as usize / 8;
        out.push(239 + (8 - skip) as u8);
        out.extend_from_slice(&bytes[skip..]);
    }
}

/// Reads what [`write_number`] wrote, and returns it with the rest of the bytes.
pub fn read_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 240 {
        return Some((first.into(), rest));
    }
    let (digits, rest) = rest.split_at_checked(usize::from(first - 239))?;
    if digits.len() > 8 {
        return None;
    }
    Some((digits.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)), rest))
}

/// Describes a raw key in words, for `diwan check`, errors and test output.
pub fn describe(space: Space, key: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let numbered = |what: &str| match read_number(key) {
        Some((number, rest)) => format!("{what} {number} {}", hex(rest)),
        None => format!("{what} ? {}", hex(key)),
    };
    match (space, key) {
        (Space::Meta, b"f") => "format".to_owned(),
        (Space::Meta, b"m") => "mark of an incomplete move".to_owned(),
        (Space::Meta, [b'c', name @ ..]) => {
            format!("catalog {}", String::from_utf8_lossy(name).replacen('\0', ".", 1))
        }
        (Space::Meta, [b'a', ..]) => format!("blob key {}", hex(&key[1..])),
        (Space::Meta, [b'l', ..]) => format!("loose blob {}", hex(&key[1..])),
        (Space::Meta, [kind @ (b'd' | b't'), name @ ..]) if read_number(name).is_some() => {
            let (number, name) = read_number(name).unwrap_or_default();
            let kind = if *kind == b'd' { "local document" } else { "setting" };
            format!("{kind} {} of collection {number}", String::from_utf8_lossy(name))
        }
        (Space::Meta, [b'v', numbers @ ..]) => match read_number(numbers)
            .and_then(|(c, i)| Some((c, read_number(i)?.0)))
        {
            Some((collection, index)) => format!("header of view index {index} of collection {collection}"),
            None => format!("header of view index ? {}", hex(numbers)),
        },
        (Space::Meta, _) => format!("meta {}", hex(key)),
        (Space::Records, _) => numbered("record of collection"),
        (Space::Indexes, _) => numbered("entry of index"),
        (Space::Log, _) => match read_number(key).and_then(|(c, rest)| Some((c, read_number(rest)?.0))) {
            Some((collection, sequence)) => format!("change {sequence} of collection {collection}"),
            None => format!("change ? {}", hex(key)),
        },
        (Space::Revisions, [DUE_BODIES, rest @ ..]) => format!("superseded body that is due {}", hex(rest)),
        (Space::Revisions, _) => numbered("revision in collection"),
        (Space::Attachments, _) => numbered("chunk of a blob in collection"),
        (Space::Events, _) => format!("event {}", hex(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_numbers_sort_numerically_and_decode() {
        let numbers = [0, 1, 239, 240, 255, 256, 65_535, 65_536, 1 << 32, 1 << 48, u64::MAX];
        let encoded: Vec<Vec<u8>> = numbers
            .iter()
            .map(|&number| {
                let mut out = Vec::new();
                write_number(&mut out, number);
                out
            })
            .collect();
        assert!(encoded.windows(2).all(|pair| pair[0] < pair[1]));
        for (number, bytes) in numbers.iter().zip(&encoded) {
            assert_eq!(read_number(bytes), Some((*number, &[][..])));
        }
        assert_eq!(read_number(&[248, 1]), None);
    }

    #[test]
    fn describe_names_the_kind_and_the_owner_of_a_key() {
        let key = Key::Change(CollectionId(7), 300);
        assert_eq!(describe(key.space(), &key.bytes()), "change 300 of collection 7");
        let key = Key::Setting(CollectionId(300), "security");
        assert_eq!(describe(key.space(), &key.bytes()), "setting security of collection 300");
        let key = Key::Catalog { database: "shop", collection: "orders.old" };
        assert_eq!(describe(key.space(), &key.bytes()), "catalog shop.orders.old");
    }

    #[test]
    fn a_revision_key_splits_into_the_id_and_its_kind() {
        let mut id = Vec::new();
        diwan_value::key::encode_order(
            &mut id,
            diwan_value::Value::String("a\0b"),
            diwan_value::key::Direction::Ascending,
            None,
        );
        let collection = CollectionId(7);
        let revision = Revision { generation: 4_000_000_000, hash: [0; 16] };
        for (key, expected) in [
            (Key::Tombstone(collection, &id), RevisionKey::Tombstone),
            (Key::Ancestor(collection, &id, 1), RevisionKey::Ancestor(1)),
            (Key::Ancestor(collection, &id, 70_000), RevisionKey::Ancestor(70_000)),
            (Key::Branches(collection, &id), RevisionKey::Branches),
            (Key::Body(collection, &id, revision), RevisionKey::Body(revision)),
        ] {
            let bytes = key.bytes();
            assert_eq!(RevisionKey::split(&bytes[1..]), Some((id.as_slice(), expected)));
            assert_eq!(RevisionKey::split(&[&bytes[1..], &[1]].concat()), None);
        }
        let due = Key::DueBody { superseded_at: 1_700_000_000, collection, id: &id, revision }.bytes();
        assert_eq!(split_due_body(&due), Some((collection, id.as_slice(), revision)));
        assert!(due_bodies(1_700_000_001).contains(&due) && !due_bodies(1_700_000_000).contains(&due));
    }
}
