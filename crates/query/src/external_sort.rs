//! Sorting more than fits in memory: records of key bytes and payload bytes, put in order by their keys.
//!
//! Records gather in one buffer. A sorter with a limit keeps no more than about twice as many records as it will give.
//! When the buffer outgrows its budget, it is sorted and written to a temporary file as a *run*, or, if the caller
//! forbids files, refused. At the end the runs are merged. The sort is stable: records of equal keys come out in the
//! order in which they went in.
//!
//! Nothing here knows documents: `find` and `$sort` put sort keys in, `$group` its groups, `$sample` random keys.

use crate::error::{Error, Result, code};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::PathBuf;

/// What a sort or a group may hold in memory by default: 100 MiB, as MongoDB allows.
pub const DEFAULT_MEMORY_LIMIT: usize = 100 * 1024 * 1024;

/// More runs than this are merged into one, so that a merge never holds too many files open.
const MAX_RUNS: usize = 64;

/// How many records a sorter with a small limit gathers before it throws away what cannot come out.
const MIN_GATHERED: usize = 256;

/// How much memory an operation may use, and where it may go on when that is used up.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    /// The most bytes to hold.
    pub limit: usize,
    /// Where temporary files may be made; `None` refuses to use the disk (`allowDiskUse: false`).
    pub directory: Option<PathBuf>,
}

impl Default for MemoryBudget {
    fn default() -> MemoryBudget {
        MemoryBudget { limit: DEFAULT_MEMORY_LIMIT, directory: None }
    }
}

impl MemoryBudget {
    /// The refusal of a sort that would need the disk.
    pub fn sort_refusal(&self) -> Error {
        Error::new(
            code::QUERY_EXCEEDED_MEMORY_LIMIT,
            format!(
                "Sort exceeded memory limit of {} bytes, but did not opt in to external sorting. Aborting \
                 operation. Pass allowDiskUse:true to opt in.",
                self.limit
            ),
        )
    }
}

/// Where a record lies in the buffer.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The first eight bytes of the key, big-endian: most comparisons end here.
    prefix: u64,
    offset: usize,
    key_length: u32,
    payload_length: u32,
}

impl Entry {
    fn key<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        &buffer[self.offset..self.offset + self.key_length as usize]
    }

    fn payload<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        let start = self.offset + self.key_length as usize;
        &buffer[start..start + self.payload_length as usize]
    }

    /// The order of the output. Offsets grow with every record, which makes the order total and the sort stable.
    fn compare(&self, other: &Entry, buffer: &[u8]) -> Ordering {
        self.prefix
            .cmp(&other.prefix)
            .then_with(|| self.key(buffer).cmp(other.key(buffer)))
            .then_with(|| self.offset.cmp(&other.offset))
    }
}

/// The first eight bytes of `key` as a number that orders as they do; a shorter key is filled up with zeros, and the
/// whole keys decide between equal prefixes.
fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(chunk)
        }
    }
}

/// Takes records in any order; [`ExternalSorter::finish`] gives them back sorted.
#[derive(Debug)]
pub struct ExternalSorter {
    budget: MemoryBudget,
    /// What to answer when the budget is used up and files are forbidden.
    refusal: Error,
    /// How many records will be read at most.
    limit: Option<usize>,
    buffer: Vec<u8>,
    entries: Vec<Entry>,
    /// With a limit: the key of the last record that can still come out, once as many were seen.
    threshold: Option<Vec<u8>>,
    runs: Vec<File>,
}

impl ExternalSorter {
    /// A sorter of which the first `limit` records will be read (all, without one); `refusal` is the error when
    /// `budget` is used up and allows no files.
    pub fn new(budget: MemoryBudget, limit: Option<usize>, refusal: Error) -> ExternalSorter {
        ExternalSorter {
            budget,
            refusal,
            limit,
            buffer: Vec::new(),
            entries: Vec::new(),
            threshold: None,
            runs: Vec::new(),
        }
    }

    /// A sorter for `find` and `$sort`, with their refusal.
    pub fn for_sort(budget: MemoryBudget, limit: Option<usize>) -> ExternalSorter {
        let refusal = budget.sort_refusal();
        ExternalSorter::new(budget, limit, refusal)
    }

    /// Adds a record.
    pub fn add(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        // Of equal keys the earlier record comes out first, so an equal one is already too late.
        if self.limit == Some(0) || self.threshold.as_ref().is_some_and(|last| key >= last.as_slice()) {
            return Ok(());
        }
        let (Ok(key_length), Ok(payload_length)) = (u32::try_from(key.len()), u32::try_from(payload.len()))
        else {
            return Err(self.refusal.clone());
        };
        let offset = self.buffer.len();
        self.buffer.extend_from_slice(key);
        self.buffer.extend_from_slice(payload);
        self.entries.push(Entry { prefix: prefix(key), offset, key_length, payload_length });
        if let Some(limit) = self.limit
            && self.entries.len() >= limit.saturating_mul(2).max(MIN_GATHERED)
        {
            self.keep_first(limit);
        }
        if self.memory() > self.budget.limit {
            self.make_room()?;
        }
        Ok(())
    }

    /// How many bytes are held in memory.
    pub fn memory(&self) -> usize {
        self.buffer.len() + self.entries.len() * size_of::<Entry>()
    }

    /// Whether any record went to a file.
    pub fn used_disk(&self) -> bool {
        !self.runs.is_empty()
    }

    /// The records in order.
    pub fn finish(mut self) -> Result<SortedRecords> {
        let remaining = self.limit.unwrap_or(usize::MAX);
        if self.runs.is_empty() {
            self.sort();
            let ExternalSorter { buffer, entries, .. } = self;
            return Ok(SortedRecords { remaining, order: Order::Memory { buffer, entries, next: 0 } });
        }
        self.spill()?;
        Ok(SortedRecords { remaining, order: Order::Merge(Merge::open(std::mem::take(&mut self.runs))?) })
    }

    fn sort(&mut self) {
        let buffer = &self.buffer;
        self.entries.sort_unstable_by(|a, b| a.compare(b, buffer));
    }

    /// Throws away all but the first `limit` records and remembers where they end.
    fn keep_first(&mut self, limit: usize) {
        if self.entries.len() <= limit || limit == 0 {
            return;
        }
        let buffer = &self.buffer;
        let (_, last, _) = self.entries.select_nth_unstable_by(limit - 1, |a, b| a.compare(b, buffer));
        self.threshold = Some(last.key(buffer).to_vec());
        self.entries.truncate(limit);
        // Compact in the order of arrival, so that offsets still tell it.
        self.entries.sort_unstable_by_key(|entry| entry.offset);
        let mut end = 0;
        for entry in &mut self.entries {
            let length = entry.key_length as usize + entry.payload_length as usize;
            self.buffer.copy_within(entry.offset..entry.offset + length, end);
            entry.offset = end;
            end += length;
        }
        self.buffer.truncate(end);
    }

    fn make_room(&mut self) -> Result<()> {
        if let Some(limit) = self.limit {
            self.keep_first(limit);
            // Halving, at the least: otherwise every record would compact the whole buffer again.
            if self.memory() <= self.budget.limit / 2 {
                return Ok(());
            }
        }
        if self.budget.directory.is_none() {
            // What can still come out does fit; there is no file to make more room with.
            if self.memory() <= self.budget.limit {
                return Ok(());
            }
            return Err(self.refusal.clone());
        }
        self.spill()
    }

    /// Writes what is in memory to a new run.
    fn spill(&mut self) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        self.sort();
        let mut out = self.new_run()?;
        for entry in &self.entries {
            write_record(&mut out, entry.key(&self.buffer), entry.payload(&self.buffer))
                .map_err(file_error)?;
        }
        self.runs.push(finish_run(out)?);
        self.entries.clear();
        self.buffer.clear();
        if self.runs.len() >= MAX_RUNS {
            self.merge_runs()?;
        }
        Ok(())
    }

    /// Merges all runs into one.
    fn merge_runs(&mut self) -> Result<()> {
        let mut merge = Merge::open(std::mem::take(&mut self.runs))?;
        let mut out = self.new_run()?;
        let mut remaining = self.limit.unwrap_or(usize::MAX);
        while remaining > 0 && merge.advance()? {
            write_record(&mut out, merge.key(), merge.payload()).map_err(file_error)?;
            remaining -= 1;
        }
        self.runs.push(finish_run(out)?);
        Ok(())
    }

    fn new_run(&self) -> Result<BufWriter<File>> {
        let Some(directory) = &self.budget.directory else {
            return Err(self.refusal.clone());
        };
        // An anonymous file: it vanishes with its last handle, however the process ends.
        let file = tempfile::tempfile_in(directory).map_err(file_error)?;
        Ok(BufWriter::with_capacity(64 * 1024, file))
    }
}

/// Records in the order of their keys.
#[derive(Debug)]
pub struct SortedRecords {
    remaining: usize,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Memory { buffer: Vec<u8>, entries: Vec<Entry>, next: usize },
    Merge(Merge),
}

impl SortedRecords {
    /// Goes to the next record; false at the end.
    pub fn advance(&mut self) -> Result<bool> {
        if self.remaining == 0 {
            return Ok(false);
        }
        self.remaining -= 1;
        match &mut self.order {
            Order::Memory { entries, next, .. } => {
                *next += 1;
                Ok(*next <= entries.len())
            }
            Order::Merge(merge) => merge.advance(),
        }
    }

    /// The current record's key. Empty before the first and after the last record.
    pub fn key(&self) -> &[u8] {
        match &self.order {
            Order::Memory { buffer, entries, next } => {
                current(entries, *next).map_or(&[], |entry| entry.key(buffer))
            }
            Order::Merge(merge) => merge.key(),
        }
    }

    /// The current record's payload. Empty before the first and after the last record.
    pub fn payload(&self) -> &[u8] {
        match &self.order {
            Order::Memory { buffer, entries, next } => {
                current(entries, *next).map_or(&[], |entry| entry.payload(buffer))
            }
            Order::Merge(merge) => merge.payload(),
        }
    }
}

fn current(entries: &[Entry], next: usize) -> Option<&Entry> {
    next.checked_sub(1).and_then(|index| entries.get(index))
}

/// The runs, read side by side. The run with the least current key is on top of the heap.
#[derive(Debug)]
struct Merge {
    heap: BinaryHeap<RunReader>,
    started: bool,
}

/// One run and its current record.
#[derive(Debug)]
struct RunReader {
    input: BufReader<File>,
    /// Runs are numbered by age: of equal keys the older run's comes first.
    number: usize,
    key: Vec<u8>,
    payload: Vec<u8>,
}

impl Merge {
    fn open(runs: Vec<File>) -> Result<Merge> {
        let mut heap = BinaryHeap::with_capacity(runs.len());
        for (number, file) in runs.into_iter().enumerate() {
            let input = BufReader::with_capacity(64 * 1024, file);
            let mut run = RunReader { input, number, key: Vec::new(), payload: Vec::new() };
            if run.advance()? {
                heap.push(run);
            }
        }
        Ok(Merge { heap, started: false })
    }

    fn advance(&mut self) -> Result<bool> {
        if !self.started {
            self.started = true;
        } else if let Some(mut top) = self.heap.peek_mut()
            && !top.advance()?
        {
            std::collections::binary_heap::PeekMut::pop(top);
        }
        Ok(!self.heap.is_empty())
    }

    fn key(&self) -> &[u8] {
        self.heap.peek().filter(|_| self.started).map_or(&[], |run| &run.key)
    }

    fn payload(&self) -> &[u8] {
        self.heap.peek().filter(|_| self.started).map_or(&[], |run| &run.payload)
    }
}

impl RunReader {
    /// Reads the next record; false at the end of the run.
    fn advance(&mut self) -> Result<bool> {
        let mut header = [0; 8];
        match self.input.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(file_error(error)),
        }
        let [a, b, c, d, e, f, g, h] = header;
        self.key.resize(u32::from_le_bytes([a, b, c, d]) as usize, 0);
        self.payload.resize(u32::from_le_bytes([e, f, g, h]) as usize, 0);
        self.input.read_exact(&mut self.key).map_err(file_error)?;
        self.input.read_exact(&mut self.payload).map_err(file_error)?;
        Ok(true)
    }
}

impl Ord for RunReader {
    /// Reversed: the heap's greatest is what comes out first.
    fn cmp(&self, other: &RunReader) -> Ordering {
        other.key.cmp(&self.key).then_with(|| other.number.cmp(&self.number))
    }
}

impl PartialOrd for RunReader {
    fn partial_cmp(&self, other: &RunReader) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RunReader {
    fn eq(&self, other: &RunReader) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RunReader {}

fn write_record(out: &mut impl Write, key: &[u8], payload: &[u8]) -> io::Result<()> {
    out.write_all(&(key.len() as u32).to_le_bytes())?;
    out.write_all(&(payload.len() as u32).to_le_bytes())?;
    out.write_all(key)?;
    out.write_all(payload)
}

/// Flushes a run and goes back to its start.
fn finish_run(out: BufWriter<File>) -> Result<File> {
    let mut file = out.into_inner().map_err(|error| file_error(error.into_error()))?;
    file.rewind().map_err(file_error)?;
    Ok(file)
}

/// A temporary file that could not be written or read.
pub(crate) fn file_error(error: io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => code::OUT_OF_DISK_SPACE,
        _ => code::FILE_STREAM_FAILED,
    };
    Error::new(code, format!("temporary file of an external sort: {error}"))
}

#[cfg(test)]
mod tests;
