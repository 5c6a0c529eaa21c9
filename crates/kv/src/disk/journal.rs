//! Reading fjall's journals without touching them.
//!
//! A journal is a sequence of batches, each of them one commit:
//!
//! ```text
//! start   1u8, number of items u32, sequence number u64
//! item    2u8, kind u8, compression u8, keyspace u64, key length u16, value length u32, stored length u32,
//!         key, stored value
//! clear   4u8, keyspace u64                              (in place of an item)
//! end     3u8, XXH3-64 of all items u64, "FJL\x03"
//! ```
//!
//! all numbers little-endian; after the last batch come zeros (a journal is allocated ahead) or the end of the
//! file. The checksum leaves the start marker out, so a batch's sequence number could change unnoticed. A
//! [`Walk`] therefore also chains what it reads: over every batch so far, start markers and checksums in order.
//! Equal chains over equally many bytes mean equal contents.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// fjall begins a new journal only when the present one is longer than this.
pub(super) const KEPT_UP_TO: u64 = 64_000_000;

/// Why a walk stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It reached or passed the limit.
    Limit,
    /// It met zeros or the end of the file right after a batch: nothing more was written.
    Blank,
    /// It met bytes that are no whole batch.
    Broken(&'static str),
}

/// A reader's position in a journal, always between two batches.
pub(super) struct Walk {
    file: File,
    buffer: Vec<u8>,
    /// Where the walk began.
    pub base: u64,
    /// Where the last whole batch ends.
    pub position: u64,
    /// The chain over the batches from `base` to `position`.
    pub chain: u64,
    /// How many batches lie between them.
    pub batches: u64,
}

impl Walk {
    const FIRST_READ: usize = 4 << 10;
    const NEXT_READ: usize = 256 << 10;

    pub fn open(path: &Path, base: u64) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, buffer: Vec::new(), base, position: base, chain: 0, batches: 0 })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether the file has been unlinked, so that the next start will not find it.
    pub fn is_removed(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() == 0)
    }

    /// Reads on until `limit`, or as far as whole batches go.
    pub fn advance(&mut self, limit: u64) -> io::Result<Stop> {
        let mut want = Self::FIRST_READ;
        if self.position >= limit {
            return Ok(Stop::Limit);
        }
        loop {
            let got = self.read(want)?;
            let mut used = 0;
            while let Some(batch) = parse(&self.buffer[used..]) {
                let (len, link) = match batch {
                    Ok(whole) => whole,
                    Err(stop) => return Ok(stop),
                };
                self.chain = chained(self.chain, &link);
                self.batches += 1;
                self.position += len as u64;
                used += len;
                if self.position >= limit {
                    return Ok(Stop::Limit);
                }
            }
            if got < want {
                return Ok(if used == got { Stop::Blank } else { Stop::Broken("it ends within a commit") });
            }
            want = if used == 0 { want * 4 } else { want.max(Self::NEXT_READ) };
        }
    }

    /// Fills the buffer with up to `want` bytes from the position on.
    fn read(&mut self, want: usize) -> io::Result<usize> {
        self.buffer.resize(want, 0);
        let mut got = 0;
        while got < want {
            match self.file.read_at(&mut self.buffer[got..], self.position + got as u64) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.buffer.truncate(got);
        Ok(got)
    }

    /// Whether only zeros follow the walk's position.
    pub fn blank_to_the_end(&mut self) -> io::Result<bool> {
        self.file.seek(SeekFrom::Start(self.position))?;
        Ok(first_nonzero(&mut self.file)?.is_none())
    }
}

/// The position of the first byte that is not zero, relative to the reader's.
pub(super) fn first_nonzero(reader: &mut impl Read) -> io::Result<Option<u64>> {
    let mut buffer = vec![0; 256 << 10];
    let mut passed = 0;
    loop {
        let got = reader.read(&mut buffer)?;
        if got == 0 {
            return Ok(None);
        }
        if let Some(at) = buffer[..got].iter().position(|b| *b != 0) {
            return Ok(Some(passed + at as u64));
        }
        passed += got as u64;
    }
}

const START_LEN: usize = 13;
const LINK_LEN: usize = START_LEN + 8;

/// The part of a batch that goes into the chain: its start marker and its checksum.
type Link = [u8; LINK_LEN];

fn chained(chain: u64, link: &Link) -> u64 {
    let mut bytes = [0; 8 + LINK_LEN];
    bytes[..8].copy_from_slice(&chain.to_le_bytes());
    bytes[8..].copy_from_slice(link);
    xxh3_64(&bytes)
}

/// Reads the batch at the beginning of `bytes`; `None` if more bytes are needed to tell.
fn parse(bytes: &[u8]) -> Option<Result<(usize, Link), Stop>> {
    let broken = |why| Some(Err(Stop::Broken(why)));
    match bytes.first()? {
        0 => return Some(Err(Stop::Blank)),
        1 => {}
        _ => return broken("no commit begins where one should"),
    }
    let mut rest = Rest(bytes);
    rest.skip(1)?;
    let items = rest.u32()?;
    rest.skip(8)?;
    let body = rest.0;
    for _ in 0..items {
        match rest.u8()? {
            2 => {
                let (kind, compression) = (rest.u8()?, rest.u8()?);
                rest.skip(8)?;
                let (key, value, stored) = (rest.u16()?, rest.u32()?, rest.u32()?);
                if !matches!(kind, 0 | 1 | 2 | 4) || compression > 1 || compression == 0 && value != stored {
                    return broken("an item is malformed");
                }
                rest.skip(usize::from(key))?;
                rest.skip(stored as usize)?;
            }
            4 => rest.skip(8)?,
            _ => return broken("an item is malformed"),
        }
    }
    let body = &body[..body.len() - rest.0.len()];
    if rest.u8()? != 3 {
        return broken("a commit does not end where it should");
    }
    let checksum = rest.u64()?;
    if rest.take(4)? != b"FJL\x03" {
        return broken("a commit does not end where it should");
    }
    if xxh3_64(body) != checksum {
        return broken("a commit fails its checksum");
    }
    let mut link = [0; LINK_LEN];
    link[..START_LEN].copy_from_slice(&bytes[..START_LEN]);
    link[START_LEN..].copy_from_slice(&checksum.to_le_bytes());
    Some(Ok((bytes.len() - rest.0.len(), link)))
}

/// The bytes not read yet; reading past them gives `None`.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn skip(&mut self, len: usize) -> Option<()> {
        self.take(len).map(|_| ())
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[b]| b)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// The file of a journal.
pub(super) fn path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{id}.jnl"))
}

/// The ids of the journals in a directory, ascending.
pub(super) fn list(dir: &Path) -> io::Result<Vec<u64>> {
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let id: Option<u64> = name.to_str().and_then(|n| n.strip_suffix(".jnl")).and_then(|n| n.parse().ok());
        ids.extend(id);
    }
    ids.sort_unstable();
    Ok(ids)
}
