//! Sorts more records than fit in memory. A record has key bytes and payload bytes; keys determine the order.
//!
//! The sorter collects records in one buffer. With a limit, it keeps at most about twice as many records as it will
//! return. When the buffer exceeds its budget, or the
//! [pool](crate::MemoryPool) has no more memory, the sorter sorts it and writes it to a temporary file as a *run*, or
//! fails if the caller forbids files. At the end it merges the runs. The sort is stable: records with equal keys keep
//! their input order.
//!
//! The module knows nothing about documents: `find` and `$sort` add sort keys, `$group` adds groups, `$sample` adds
//! random keys.

use crate::error::{Error, Result, code};
use crate::memory::{MemoryBudget, Reservation};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// When there are more runs than this, the sorter merges them into one, so that a merge opens few files.
const MAX_RUNS: usize = 64;

/// How many records a sorter with a small limit collects before it discards those past the limit.
const MIN_GATHERED: usize = 256;

/// The buffers of all files of a merge together, and the least and the most for each.
const MERGE_BYTES: usize = 1 << 20;
const FILE_BYTES: std::ops::RangeInclusive<usize> = 8 << 10..=64 << 10;

/// A record's location in the buffer.
#[derive(Clone, Copy, Debug)]
struct RecordEntry {
    /// The first eight bytes of the key, big-endian. They decide most comparisons.
    prefix: u64,
    offset: usize,
    key_length: u32,
    payload_length: u32,
}

impl RecordEntry {
    fn key<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        &buffer[self.offset..self.offset + self.key_length as usize]
    }

    fn payload<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        let start = self.offset + self.key_length as usize;
        &buffer[start..start + self.payload_length as usize]
    }

    /// The output order. Offsets grow with every record, so the order is total and the sort is stable.
    fn compare(&self, other: &RecordEntry, buffer: &[u8]) -> Ordering {
        self.prefix
            .cmp(&other.prefix)
            .then_with(|| self.key(buffer).cmp(other.key(buffer)))
            .then_with(|| self.offset.cmp(&other.offset))
    }
}

/// The first eight bytes of `key` as a number with the same order. A shorter key is padded with zeros; for equal
/// prefixes the whole keys are compared.
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

/// Accepts records in any order; [`ExternalSorter::finish`] returns them sorted.
#[derive(Debug)]
pub struct ExternalSorter {
    budget: MemoryBudget,
    /// The memory of the buffer and the entries.
    reservation: Reservation,
    /// The error when the budget is exhausted and files are forbidden.
    over_budget: Error,
    /// How many records the caller reads at most.
    limit: Option<usize>,
    buffer: Vec<u8>,
    entries: Vec<RecordEntry>,
    /// The key of the last record within the limit, once that many records were seen. Later keys are discarded.
    threshold: Option<Vec<u8>>,
    runs: Vec<File>,
}

impl ExternalSorter {
    /// A sorter whose caller reads at most the first `limit` records, or all of them. `over_budget` is the error when
    /// `budget` is exhausted and allows no files.
    pub fn new(budget: MemoryBudget, limit: Option<usize>, over_budget: Error) -> ExternalSorter {
        ExternalSorter {
            reservation: budget.reservation(),
            budget,
            over_budget,
            limit,
            buffer: Vec::new(),
            entries: Vec::new(),
            threshold: None,
            runs: Vec::new(),
        }
    }

    /// A sorter for `find` and `$sort`, with MongoDB's error for sorts.
    pub fn for_sort(budget: MemoryBudget, limit: Option<usize>) -> ExternalSorter {
        let over_budget = budget.sort_error();
        ExternalSorter::new(budget, limit, over_budget)
    }

    /// Adds a record.
    pub fn add(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        // Of equal keys the earlier record comes first, so a record with the threshold's key is already past the limit.
        if self.limit == Some(0) || self.threshold.as_ref().is_some_and(|last| key >= last.as_slice()) {
            return Ok(());
        }
        let (Ok(key_length), Ok(payload_length)) = (u32::try_from(key.len()), u32::try_from(payload.len()))
        else {
            return Err(self.over_budget.clone());
        };
        if !self.covers(key.len() + payload.len()) {
            self.make_room(self.reservation.allowed().min(self.budget.limit))?;
        }
        let offset = self.buffer.len();
        self.buffer.extend_from_slice(key);
        self.buffer.extend_from_slice(payload);
        self.entries.push(RecordEntry { prefix: prefix(key), offset, key_length, payload_length });
        if let Some(limit) = self.limit
            && self.entries.len() >= limit.saturating_mul(2).max(MIN_GATHERED)
        {
            self.keep_first(limit);
        }
        if self.memory() > self.budget.limit {
            self.make_room(self.budget.limit)?;
        }
        Ok(())
    }

    /// Whether another record of `record` bytes fits into the buffer and the entries, or they may grow.
    fn covers(&mut self, record: usize) -> bool {
        let needed = self.buffer.len() + record;
        let grows = needed > self.buffer.capacity() || self.entries.len() == self.entries.capacity();
        if !grows || self.entries.is_empty() {
            return true;
        }
        // As `Vec` grows: to twice as much, or to what is needed.
        let bytes = match needed > self.buffer.capacity() {
            true => needed.max(2 * self.buffer.capacity()),
            false => self.buffer.capacity(),
        };
        let entries = match self.entries.len() == self.entries.capacity() {
            true => 2 * self.entries.capacity(),
            false => self.entries.capacity(),
        };
        self.reservation.cover(bytes + entries * size_of::<RecordEntry>())
    }

    /// How many bytes the sorter holds in memory.
    pub fn memory(&self) -> usize {
        self.buffer.len() + self.entries.len() * size_of::<RecordEntry>()
    }

    /// Whether the sorter wrote any record to a file.
    #[cfg(test)]
    fn used_disk(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Returns the records in order.
    pub fn finish(mut self) -> Result<SortedRecords> {
        let remaining = self.limit.unwrap_or(usize::MAX);
        if self.runs.is_empty() {
            self.sort();
            let ExternalSorter { buffer, entries, budget, reservation, .. } = self;
            let order = Order::Memory { buffer, entries, next: 0 };
            return Ok(SortedRecords { remaining, order, directory: budget.directory, reservation });
        }
        self.spill()?;
        self.forget_buffers();
        let ExternalSorter { mut reservation, budget, runs, .. } = self;
        let order = Order::Merge(Merge::open(runs)?);
        // A merge cannot do without its buffers, whether or not the pool has as much.
        reservation.cover(MERGE_BYTES);
        Ok(SortedRecords { remaining, order, directory: budget.directory, reservation })
    }

    /// Gives back the memory of records that were written to a run.
    fn forget_buffers(&mut self) {
        (self.buffer, self.entries) = (Vec::new(), Vec::new());
        self.reservation.release();
    }

    fn sort(&mut self) {
        let buffer = &self.buffer;
        self.entries.sort_unstable_by(|a, b| a.compare(b, buffer));
    }

    /// Discards all but the first `limit` records and remembers the last key as the threshold.
    fn keep_first(&mut self, limit: usize) {
        if self.entries.len() <= limit || limit == 0 {
            return;
        }
        let buffer = &self.buffer;
        let (_, last, _) = self.entries.select_nth_unstable_by(limit - 1, |a, b| a.compare(b, buffer));
        self.threshold = Some(last.key(buffer).to_vec());
        self.entries.truncate(limit);
        // Compact in input order, so that offsets still reflect it.
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

    /// Makes room where no more than `allowed` bytes may be held.
    fn make_room(&mut self, allowed: usize) -> Result<()> {
        if let Some(limit) = self.limit {
            self.keep_first(limit);
            // The buffer must shrink to half; otherwise every further record would compact the whole buffer again.
            if self.memory() <= allowed / 2 {
                return Ok(());
            }
        }
        if self.budget.directory.is_none() {
            // The records within the limit still fit in the budget, and files are forbidden.
            if self.memory() <= allowed {
                return Ok(());
            }
            return Err(self.over_budget.clone());
        }
        self.spill()?;
        if allowed < self.budget.limit {
            // The pool is used up: others may need what was drawn of it more.
            self.forget_buffers();
        }
        Ok(())
    }

    /// Writes the records in memory to a new run.
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
            return Err(self.over_budget.clone());
        };
        new_run(directory)
    }
}

/// Creates the file of a run.
fn new_run(directory: &Path) -> Result<BufWriter<File>> {
    // The file is anonymous: the system deletes it when its handle is closed, however the process ends.
    let file = tempfile::tempfile_in(directory).map_err(file_error)?;
    Ok(BufWriter::with_capacity(*FILE_BYTES.end(), file))
}

/// Sorted records.
#[derive(Debug)]
pub struct SortedRecords {
    remaining: usize,
    order: Order,
    /// Where records that lie in memory may be written to.
    directory: Option<PathBuf>,
    reservation: Reservation,
}

#[derive(Debug)]
enum Order {
    Memory { buffer: Vec<u8>, entries: Vec<RecordEntry>, next: usize },
    Merge(Merge),
}

impl SortedRecords {
    /// Moves to the next record; false at the end.
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

    /// Gives memory back while nobody reads, if others need it: records that lie in memory go to a file, and buffers of
    /// files are dropped. The current record stays what it is.
    pub fn suspend(&mut self) {
        if !self.reservation.is_scarce() {
            return;
        }
        match &mut self.order {
            Order::Memory { buffer, entries, next } => {
                let rest = entries.get(next.saturating_sub(1)..).unwrap_or_default();
                // Where there is no file, they stay.
                if let Some(directory) = &self.directory
                    && let Ok(mut merge) = write_rest(directory, buffer, rest)
                    && (*next == 0 || merge.advance().is_ok())
                {
                    merge.suspend();
                    self.order = Order::Merge(merge);
                    self.reservation.release();
                }
            }
            Order::Merge(merge) => {
                merge.suspend();
                self.reservation.release();
            }
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

fn current(entries: &[RecordEntry], next: usize) -> Option<&RecordEntry> {
    next.checked_sub(1).and_then(|index| entries.get(index))
}

/// Writes sorted records to a run.
fn write_rest(directory: &Path, buffer: &[u8], rest: &[RecordEntry]) -> Result<Merge> {
    let mut out = new_run(directory)?;
    for entry in rest {
        write_record(&mut out, entry.key(buffer), entry.payload(buffer)).map_err(file_error)?;
    }
    Merge::open(vec![finish_run(out)?])
}

/// A merge of all runs. The run with the smallest current key is on top of the heap.
#[derive(Debug)]
struct Merge {
    heap: BinaryHeap<RunReader>,
    started: bool,
}

/// One run and its current record.
#[derive(Debug)]
struct RunReader {
    input: Input,
    /// Runs are numbered by age: of equal keys, the older run's record comes first.
    number: usize,
    key: Vec<u8>,
    payload: Vec<u8>,
}

/// A run's file, with a buffer while it is read.
#[derive(Debug)]
enum Input {
    Buffered(BufReader<File>),
    /// With the place of what is read next.
    Suspended(File, u64),
}

impl Merge {
    fn open(runs: Vec<File>) -> Result<Merge> {
        let mut heap = BinaryHeap::with_capacity(runs.len());
        let buffer = (MERGE_BYTES / runs.len().max(1)).clamp(*FILE_BYTES.start(), *FILE_BYTES.end());
        for (number, file) in runs.into_iter().enumerate() {
            let input = Input::Buffered(BufReader::with_capacity(buffer, file));
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

    /// Drops the buffers until the next record is asked for.
    fn suspend(&mut self) {
        let runs = std::mem::take(&mut self.heap).into_vec();
        let suspended = runs.into_iter().map(|run| RunReader { input: run.input.suspended(), ..run });
        self.heap = suspended.collect();
    }

    fn key(&self) -> &[u8] {
        self.heap.peek().filter(|_| self.started).map_or(&[], |run| &run.key)
    }

    fn payload(&self) -> &[u8] {
        self.heap.peek().filter(|_| self.started).map_or(&[], |run| &run.payload)
    }
}

impl Input {
    fn suspended(self) -> Input {
        match self {
            Input::Buffered(mut reader) => match reader.stream_position() {
                Ok(place) => Input::Suspended(reader.into_inner(), place),
                Err(_) => Input::Buffered(reader),
            },
            suspended => suspended,
        }
    }

    fn reader(&mut self) -> io::Result<&mut BufReader<File>> {
        if let Input::Suspended(file, place) = self {
            let mut file = file.try_clone()?;
            file.seek(SeekFrom::Start(*place))?;
            *self = Input::Buffered(BufReader::with_capacity(*FILE_BYTES.start(), file));
        }
        match self {
            Input::Buffered(reader) => Ok(reader),
            Input::Suspended(..) => Err(io::ErrorKind::Other.into()),
        }
    }
}

impl RunReader {
    /// Reads the next record; false at the end of the run.
    fn advance(&mut self) -> Result<bool> {
        let input = self.input.reader().map_err(file_error)?;
        let mut header = [0; 8];
        match input.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(file_error(error)),
        }
        let [a, b, c, d, e, f, g, h] = header;
        self.key.resize(u32::from_le_bytes([a, b, c, d]) as usize, 0);
        self.payload.resize(u32::from_le_bytes([e, f, g, h]) as usize, 0);
        input.read_exact(&mut self.key).map_err(file_error)?;
        input.read_exact(&mut self.payload).map_err(file_error)?;
        Ok(true)
    }
}

impl Ord for RunReader {
    /// Reversed, because the heap returns its greatest element first.
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

/// Flushes a run and seeks to its start.
fn finish_run(out: BufWriter<File>) -> Result<File> {
    let mut file = out.into_inner().map_err(|error| file_error(error.into_error()))?;
    file.rewind().map_err(file_error)?;
    Ok(file)
}

/// The error for a temporary file that could not be written or read.
pub(crate) fn file_error(error: io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => code::OUT_OF_DISK_SPACE,
        _ => code::FILE_STREAM_FAILED,
    };
    Error::new(code, format!("temporary file of an external sort: {error}"))
}

#[cfg(test)]
mod tests;
