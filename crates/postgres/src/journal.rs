//! The journal: which keys each group of commits has written, for the other processes.
//!
//! A row has the group's number, its stamp and the one of the group before ([`crate::head`]), and the keys. Keys of chunks of attachments, which no process has in memory, are left out. The keys are sorted, and each is
//! written as what differs from the one before. The notes of the batches follow. A group of very many keys has a range for each space instead.
//!
//! Rows are deleted after some minutes. A process that was behind for longer takes everything as changed.

use crate::error::Answer;
use crate::head::Head;
use diwan_kv::{Bytes, Changes, Error, KeyRange, Result, Space};
use std::ops::Bound;
use std::time::{Duration, Instant};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

/// How long rows are kept at least.
const KEPT: Duration = Duration::from_secs(180);

/// How often rows are deleted.
const TRIM_EVERY: Duration = Duration::from_secs(20);

/// The most bytes of keys.
const MOST_BYTES: usize = 256 << 10;

/// The most rows that are read at a time.
pub(crate) const ROWS: i64 = 500;

const KEYS: u8 = 0;
const RANGES: u8 = 1;

/// Stands for a note where the number of a space stands for a key.
const NOTE: u8 = 0xFF;

/// Whether processes have something in memory that depends on keys of a space.
fn is_told(space: Space) -> bool {
    space != Space::Attachments
}

/// Stands for the process in a row without keys, which is added also while a process has the [lease](crate::lease).
pub(crate) const ANY_PROCESS: i64 = 0;

/// The parameters of [`insert`]: number, the stamp of the group before, stamp, keys, process.
pub(crate) const ROW: [Type; 5] = [Type::INT8, Type::INT8, Type::INT8, Type::BYTEA, Type::INT8];

/// The statement that adds a row, with parameters from `$first` on. It fails if the row before is another, or another process has the
/// lease.
pub(crate) fn insert(schema: &str, first: usize) -> String {
    let [number, before, stamp, keys, process] = [0, 1, 2, 3, 4].map(|after| format!("${}", first + after));
    format!(
        "INSERT INTO {schema}.journal (number, before, stamp, keys) VALUES ({number}::bigint, \
         (SELECT j.stamp FROM {schema}.journal j, {schema}.processes p \
          WHERE j.number = {number}::bigint - 1 AND j.stamp = {before} AND p.one = 1 \
          AND (p.lease = 0 OR abs(p.lease) = {process} OR {process} = 0)), \
         {stamp}, {keys})"
    )
}

/// The statement that reads rows: after a number, up to a number, at most.
pub(crate) fn read(schema: &str) -> String {
    format!(
        "SELECT number, before, stamp, keys FROM {schema}.journal WHERE number > $1 AND number <= $2 \
         ORDER BY number LIMIT $3"
    )
}

/// The group of a row that was read.
pub(crate) fn head_of(row: &Row) -> Answer<Head> {
    Ok(Head { number: row.try_get(0)?, stamp: row.try_get(2)? })
}

/// The keys, sorted by space and key, and the notes, as a row has them.
pub(crate) fn encode<'a>(
    keys: impl Iterator<Item = (Space, &'a [u8])> + Clone,
    notes: impl Iterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let told = keys.filter(|(space, _)| is_told(*space));
    let mut out = vec![KEYS];
    let mut before: (Option<Space>, &[u8]) = (None, &[]);
    for (space, key) in told.clone() {
        if out.len() > MOST_BYTES {
            return encode_ranges(told);
        }
        let shared = match before.0 == Some(space) {
            true => before.1.iter().zip(key).take_while(|(one, other)| one == other).count(),
            false => 0,
        };
        out.push(space as u8);
        write_length(&mut out, shared);
        write_length(&mut out, key.len() - shared);
        out.extend_from_slice(&key[shared..]);
        before = (Some(space), key);
    }
    for note in notes {
        out.push(NOTE);
        write_length(&mut out, note.len());
        out.extend_from_slice(note);
    }
    out
}

/// A range as a row has it: the space, the first key, the last key.
pub(crate) fn encode_range(space: Space, first: &[u8], last: &[u8]) -> Vec<u8> {
    let mut out = vec![RANGES];
    write_range(&mut out, space, first, last);
    out
}

fn encode_ranges<'a>(keys: impl Iterator<Item = (Space, &'a [u8])> + Clone) -> Vec<u8> {
    let mut out = vec![RANGES];
    for space in Space::ALL {
        let mut keys = keys.clone().filter(|(of, _)| *of == space).map(|(_, key)| key);
        if let Some(first) = keys.next() {
            write_range(&mut out, space, first, keys.last().unwrap_or(first));
        }
    }
    out
}

fn write_range(out: &mut Vec<u8>, space: Space, first: &[u8], last: &[u8]) {
    out.push(space as u8);
    for key in [first, last] {
        write_length(out, key.len());
        out.extend_from_slice(key);
    }
}

fn write_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Reads what a row has.
pub(crate) fn decode(bytes: &[u8]) -> Result<Changes> {
    let damaged = || Error::Damaged("a row of the journal in PostgreSQL".into());
    let (&kind, rest) = bytes.split_first().ok_or_else(damaged)?;
    let mut reader = Reader(rest);
    let mut changes = match kind {
        KEYS => Changes::Keys { keys: Vec::new(), notes: Vec::new() },
        RANGES => Changes::Ranges(Vec::new()),
        _ => return Err(damaged()),
    };
    let mut key: Vec<u8> = Vec::new();
    while !reader.0.is_empty() {
        if let Changes::Keys { notes, .. } = &mut changes
            && reader.0.first() == Some(&NOTE)
        {
            reader.byte();
            notes.push(reader.bytes().ok_or_else(damaged)?.into());
            continue;
        }
        let space = reader.space().ok_or_else(damaged)?;
        match &mut changes {
            Changes::Keys { keys, .. } => {
                let shared = reader.length().filter(|shared| *shared <= key.len()).ok_or_else(damaged)?;
                key.truncate(shared);
                key.extend_from_slice(reader.bytes().ok_or_else(damaged)?);
                keys.push((space, Bytes::from(key.as_slice())));
            }
            Changes::Ranges(ranges) => {
                let (first, last) = reader.bytes().zip(reader.bytes()).ok_or_else(damaged)?;
                let range = KeyRange::new(Bound::Included(first.into()), Bound::Included(last.into()));
                ranges.push((space, range));
            }
            Changes::Everything => return Err(damaged()),
        }
    }
    Ok(changes)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn space(&mut self) -> Option<Space> {
        Space::ALL.get(usize::from(self.byte()?)).copied()
    }

    fn length(&mut self) -> Option<usize> {
        let mut length = 0;
        for shift in (0..28).step_by(7) {
            let byte = self.byte()?;
            length |= usize::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(length);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// Deletes old rows now and then.
pub(crate) struct Trimming {
    looked: Instant,
    /// Numbers, and when they were the last.
    passed: Vec<(Instant, i64)>,
}

impl Trimming {
    pub fn new() -> Trimming {
        Trimming { looked: Instant::now(), passed: Vec::new() }
    }

    /// To be called after a group with this number. Rows that stay because of an error are deleted later.
    pub async fn after(&mut self, client: &Client, schema: &str, number: i64) -> Answer<()> {
        let now = Instant::now();
        if now - self.looked < TRIM_EVERY {
            return Ok(());
        }
        self.looked = now;
        self.passed.push((now, number));
        let old = self.passed.iter().take_while(|(at, _)| now - *at >= KEPT).count();
        let Some((_, last)) = self.passed.drain(..old).next_back() else { return Ok(()) };
        client.execute(&format!("DELETE FROM {schema}.journal WHERE number <= $1"), &[&last]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(keys: &[(Space, &[u8])]) -> Vec<(Space, Bytes)> {
        keys.iter().map(|(space, key)| (*space, Bytes::from(*key))).collect()
    }

    #[test]
    fn decode_reads_what_encode_wrote() {
        let long = vec![7; 300];
        let keys: Vec<(Space, &[u8])> = vec![
            (Space::Meta, b"c\0a"),
            (Space::Meta, b"c\0ab"),
            (Space::Records, b"c\0ab"),
            (Space::Records, &long),
            (Space::Attachments, b"left out"),
            (Space::Events, b"e"),
        ];
        let mut told = keys.clone();
        told.remove(4);
        let notes: [&[u8]; 2] = [b"one", b""];
        let expected = Changes::Keys { keys: pairs(&told), notes: notes.map(Bytes::from).to_vec() };
        assert_eq!(decode(&encode(keys.into_iter(), notes.into_iter())).unwrap(), expected);
        let nothing = Changes::Keys { keys: Vec::new(), notes: Vec::new() };
        assert_eq!(decode(&encode(std::iter::empty(), std::iter::empty())).unwrap(), nothing);
    }

    #[test]
    fn very_many_keys_become_ranges() {
        let keys: Vec<[u8; 4]> = (0..100_000u32).map(|n| (n * 7919).to_be_bytes()).collect();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        let encoded = encode(sorted.iter().map(|key| (Space::Log, &key[..])), std::iter::empty());
        let range = KeyRange::new(
            Bound::Included(sorted[0].into()),
            Bound::Included(sorted[sorted.len() - 1].into()),
        );
        assert_eq!(decode(&encoded).unwrap(), Changes::Ranges(vec![(Space::Log, range.clone())]));
        let alone = encode_range(Space::Log, &sorted[0], &sorted[sorted.len() - 1]);
        assert_eq!(decode(&alone).unwrap(), Changes::Ranges(vec![(Space::Log, range)]));
    }

    #[test]
    fn damaged_rows_are_errors() {
        let good =
            encode([(Space::Meta, &b"key"[..]), (Space::Meta, b"kez")].into_iter(), std::iter::empty());
        for length in [0, 2, 3, 5, good.len() - 1] {
            assert!(decode(&good[..length]).is_err(), "{length}");
        }
        assert!(decode(&[9]).is_err() && decode(&[KEYS, 200, 0, 0]).is_err());
        assert!(decode(&[KEYS, 0, 5, 1, 1]).is_err(), "more is shared than there was");
    }
}
