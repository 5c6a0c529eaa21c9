//! Rows from map functions: collected, sorted, stored in runs, and merged.

use crate::error::{Error, Result};
use crate::tree::{Entry, read_entry, write_entry};
use diwan_kv::{Bytes, Pairs};
use std::cmp::Ordering;

/// The rows of one view, in emission order until they are sorted by place.
#[derive(Default)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    entries: Vec<RowSlot>,
}

/// The location of a row in the bytes. The first bytes of its place decide most comparisons.
#[derive(Clone, Copy)]
struct RowSlot {
    first: u64,
    start: usize,
    place: (u32, u32),
}

impl Rows {
    /// Adds a row.
    pub fn push(&mut self, row: Entry<'_>) {
        let start = self.bytes.len();
        write_entry(&mut self.bytes, row);
        let rest = row.key.len() + row.value.len();
        let lengths = self.bytes.len() - start - row.place.len() - rest;
        // The place comes after its own length, which is the only one of the three lengths before it.
        let before = lengths - number_length(row.key.len()) - number_length(row.value.len());
        let mut first = [0; 8];
        let known = row.place.len().min(8);
        first[..known].copy_from_slice(&row.place[..known]);
        self.entries.push(RowSlot {
            first: u64::from_be_bytes(first),
            start,
            place: (before as u32, row.place.len() as u32),
        });
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The approximate memory of the rows in bytes.
    pub fn memory(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<RowSlot>()
    }

    fn place(&self, slot: &RowSlot) -> &[u8] {
        let start = slot.start + slot.place.0 as usize;
        self.bytes.get(start..start + slot.place.1 as usize).unwrap_or_default()
    }

    /// Sorts the rows by place.
    pub fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|a, b| a.first.cmp(&b.first).then_with(|| self.place(a).cmp(self.place(b))));
        self.entries = entries;
    }

    fn entry(&self, at: usize) -> Option<Entry<'_>> {
        let slot = self.entries.get(at)?;
        read_entry(self.bytes.get(slot.start..)?).map(|(entry, _)| entry)
    }

    /// The rows.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.entries.len()).filter_map(|at| self.entry(at))
    }

    /// Splits the rows into chunks of about `bytes` bytes, for a run.
    pub fn chunks(&self, bytes: usize) -> impl Iterator<Item = Vec<u8>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let mut out = Vec::with_capacity(bytes + 1024);
            while out.len() < bytes
                && let Some(entry) = self.entry(at)
            {
                write_entry(&mut out, entry);
                at += 1;
            }
            (!out.is_empty()).then_some(out)
        })
    }
}

fn number_length(number: usize) -> usize {
    if number < 240 { 1 } else { 1 + 8 - (number as u64).leading_zeros() as usize / 8 }
}

/// A sorted run of rows.
pub(super) enum Run<'a> {
    /// In memory.
    Memory(&'a Rows, usize),
    /// Rows in the store: the remaining chunks, the current chunk, and the offset in it.
    Stored(Pairs, Bytes, usize),
}

impl<'a> Run<'a> {
    /// A run of sorted rows in memory.
    pub fn of(rows: &'a Rows) -> Run<'a> {
        Run::Memory(rows, 0)
    }

    /// A run of rows in the store.
    pub fn stored(chunks: Pairs) -> Result<Run<'a>> {
        let mut run = Run::Stored(chunks, Bytes::from([]), 0);
        run.load()?;
        Ok(run)
    }

    fn peek(&self) -> Option<Entry<'_>> {
        match self {
            Run::Memory(rows, at) => rows.entry(*at),
            Run::Stored(_, chunk, at) => read_entry(chunk.get(*at..)?).map(|(entry, _)| entry),
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Run::Memory(_, at) => *at += 1,
            Run::Stored(_, chunk, at) => {
                let rest = chunk.get(*at..).and_then(read_entry).map_or(0, |(_, rest)| rest.len());
                *at = chunk.len() - rest;
                self.load()?;
            }
        }
        Ok(())
    }

    /// Loads the next chunk if the current one is finished.
    fn load(&mut self) -> Result<()> {
        if let Run::Stored(chunks, chunk, at) = self
            && *at >= chunk.len()
            && let Some(pair) = chunks.next()
        {
            (_, *chunk) = pair?;
            *at = 0;
            if read_entry(chunk).is_none() {
                return Err(Error::Store(diwan_store::Error::Damaged("a run of a view".to_owned())));
            }
        }
        Ok(())
    }
}

/// Calls `show` with the rows of all runs in order. Of several rows with one place, only the first is used.
pub(super) fn merge(mut runs: Vec<Run<'_>>, show: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
    runs.retain(|run| run.peek().is_some());
    // A binary heap of run numbers, ordered by each run's current row. The standard heap cannot hold rows that change
    // when their run advances.
    let mut heap: Vec<usize> = (0..runs.len()).collect();
    let less = |runs: &[Run<'_>], a: usize, b: usize| {
        let places = (runs[a].peek().map(|entry| entry.place), runs[b].peek().map(|entry| entry.place));
        match places {
            (Some(one), Some(other)) => one.cmp(other) == Ordering::Less,
            (one, _) => one.is_some(),
        }
    };
    let sift = |heap: &mut [usize], runs: &[Run<'_>], mut at: usize| {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < heap.len() && less(runs, heap[child], heap[least]) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            heap.swap(at, least);
            at = least;
        }
    };
    for at in (0..heap.len() / 2).rev() {
        sift(&mut heap, &runs, at);
    }
    let mut last: Vec<u8> = Vec::new();
    while let Some(&first) = heap.first() {
        match runs[first].peek() {
            Some(entry) => {
                if entry.place != last.as_slice() {
                    last.clear();
                    last.extend_from_slice(entry.place);
                    show(entry)?;
                }
                runs[first].advance()?;
            }
            None => {
                heap.swap_remove(0);
            }
        }
        sift(&mut heap, &runs, 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_returns_rows_of_all_runs_in_order() {
        let (mut memory, mut model) = (Vec::new(), Vec::new());
        for run in 0..5u32 {
            let mut rows = Rows::default();
            for number in 0..200u32 {
                // Places with many lengths and a common prefix.
                let place = format!("common{}{}", "x".repeat((number * 7 % 300) as usize), number * 5 + run);
                rows.push(Entry { place: place.as_bytes(), key: "1", value: &"v".repeat(number as usize) });
                model.push(place);
            }
            assert_eq!(rows.len(), 200);
            rows.sort();
            memory.push(rows);
        }
        model.sort();
        let stored: Vec<diwan_kv::Result<(Bytes, Bytes)>> =
            memory[0].chunks(1000).map(|chunk| Ok((Bytes::from([]), chunk.into()))).collect();
        assert!(stored.len() > 3);
        let mut runs: Vec<Run<'_>> = memory[1..].iter().map(Run::of).collect();
        runs.push(Run::stored(Box::new(stored.into_iter())).unwrap());
        let mut merged = Vec::new();
        merge(runs, &mut |entry| {
            merged.push(String::from_utf8(entry.place.to_vec()).unwrap());
            Ok(())
        })
        .unwrap();
        assert_eq!(merged, model);
    }
}
