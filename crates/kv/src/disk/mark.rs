//! The mark: how far each journal is known to be on stable storage.
//!
//! A file of two slots of 4,096 bytes, written alternately, so that a torn write leaves the other slot whole:
//!
//! ```text
//! magic "DIWANMRK", version u32 = 1, number of entries u32, generation u64,
//! entries of four u64: journal id, base, end, chain
//! XXH3-64 of everything before it u64
//! ```
//!
//! All numbers are little-endian; the valid slot with the greater generation counts. An entry means that the batches of
//! the journal from `base` to `end` were synced and have the chain `chain`; those before `base` are in tables.
//!
//! The mark is written after each sync of the journals. It is not synced itself, and nothing waits for it: after a loss
//! of power it may be a little old, and then less is demanded of the journals.

use crate::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"DIWANMRK";
const VERSION: u32 = 1;
const SLOT_LEN: usize = 4096;
const HEAD_LEN: usize = 24;
const ENTRY_LEN: usize = 32;
const MAX_ENTRIES: usize = (SLOT_LEN - HEAD_LEN - 8) / ENTRY_LEN;

/// The synced part of one journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Synced {
    pub journal: u64,
    pub base: u64,
    pub end: u64,
    pub chain: u64,
}

/// The open mark file.
pub(super) struct Mark {
    file: File,
    generation: u64,
}

impl Mark {
    /// Creates the file, synced, with no entries; its directory entry is the caller's to sync.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)?;
        let mut mark = Self { file, generation: 0 };
        mark.write(&[])?;
        mark.sync()?;
        Ok(mark)
    }

    /// Opens the file and reads its entries. `None`: there is no such file.
    pub fn open(path: &Path) -> Result<Option<(Self, Vec<Synced>)>> {
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("opening the mark of the journals", e)),
        };
        let mut bytes = Vec::new();
        Read::by_ref(&mut file)
            .take(2 * SLOT_LEN as u64)
            .read_to_end(&mut bytes)
            .map_err(|e| Error::io("reading the mark of the journals", e))?;
        match bytes.chunks(SLOT_LEN).filter_map(decode).max_by_key(|(generation, _)| *generation) {
            Some((generation, entries)) => Ok(Some((Self { file, generation }, entries))),
            None => Err(Error::damaged(format!("{} is not readable", path.display()))),
        }
    }

    /// Overwrites the older slot with the entries; if there are too many, with those of the newest journals.
    pub fn write(&mut self, entries: &[Synced]) -> io::Result<()> {
        let entries = &entries[entries.len().saturating_sub(MAX_ENTRIES)..];
        self.generation += 1;
        let slot = self.generation % 2 * SLOT_LEN as u64;
        self.file.write_all_at(&encode(self.generation, entries), slot)
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

fn encode(generation: u64, entries: &[Synced]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_LEN + entries.len() * ENTRY_LEN + 8);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&generation.to_le_bytes());
    for entry in entries {
        for number in [entry.journal, entry.base, entry.end, entry.chain] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
    let checksum = xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

fn decode(slot: &[u8]) -> Option<(u64, Vec<Synced>)> {
    let rest = slot.strip_prefix(MAGIC)?;
    let (version, rest) = rest.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let (generation, rest) = rest.split_first_chunk()?;
    let count = u32::from_le_bytes(*count) as usize;
    if u32::from_le_bytes(*version) != VERSION || count > MAX_ENTRIES {
        return None;
    }
    let (body, rest) = rest.split_at_checked(count * ENTRY_LEN)?;
    let checksum = rest.first_chunk()?;
    if u64::from_le_bytes(*checksum) != xxh3_64(&slot[..HEAD_LEN + body.len()]) {
        return None;
    }
    let mut numbers = body.as_chunks().0.iter().map(|n| u64::from_le_bytes(*n));
    let entry = |_| {
        let mut next = || numbers.next();
        Some(Synced { journal: next()?, base: next()?, end: next()?, chain: next()? })
    };
    let entries = (0..count).map(entry).collect::<Option<Vec<_>>>()?;
    Some((u64::from_le_bytes(*generation), entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(journal: u64) -> Synced {
        Synced { journal, base: 1, end: 2, chain: u64::MAX }
    }

    #[test]
    fn the_newest_whole_slot_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mark");
        assert!(Mark::open(&path).unwrap().is_none());
        let mut mark = Mark::create(&path).unwrap();
        mark.write(&[entry(1)]).unwrap();
        mark.write(&[entry(1), entry(2)]).unwrap();
        assert_eq!(Mark::open(&path).unwrap().unwrap().1, [entry(1), entry(2)]);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            std::fs::write(&path, &bytes).unwrap();
            let read = Mark::open(&path).unwrap().unwrap().1;
            assert!(read == [entry(1), entry(2)] || read == [entry(1)], "byte {at}");
        }
        std::fs::write(&path, b"").unwrap();
        assert!(matches!(Mark::open(&path), Err(Error::Damaged(_))));
    }

    #[test]
    fn too_many_entries_keep_the_newest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mark");
        let entries: Vec<_> = (0..1000).map(entry).collect();
        Mark::create(&path).unwrap().write(&entries).unwrap();
        let read = Mark::open(&path).unwrap().unwrap().1;
        assert_eq!(read, entries[1000 - MAX_ENTRIES..]);
    }
}
