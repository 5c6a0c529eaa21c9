//! Document sources: every stage is a source that pulls documents from the source before it.

use crate::error::Result;
use crate::external_sort::file_error;
use crate::interrupt::Interrupt;
use crate::memory::{MemoryBudget, Reservation};
use crate::{Error, code};
use diwan_value::{Doc, DocBuf};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::sync::Arc;

/// A stream of documents. A document is borrowed from the source and is valid until the next step, so that a scan can
/// lend the bytes of its block and no stage copies documents that it only reads. A source that may take many steps
/// without yielding a document checks the interrupt regularly.
pub trait DocSource: Send {
    /// Moves to the next document; false at the end, and on every later call.
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool>;

    /// The document of the last [`DocSource::advance`]; empty if there is none.
    fn current(&self) -> Doc<'_>;

    /// Announces a pause, for example between two batches of a cursor. A source that pins a snapshot releases it and
    /// finds its position again at the next step. A source with an input passes the call on while it has the input.
    /// There is no default implementation, so that no source forgets it.
    fn suspend(&mut self);
}

impl<S: DocSource + ?Sized> DocSource for Box<S> {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        (**self).advance(interrupt)
    }

    fn current(&self) -> Doc<'_> {
        (**self).current()
    }

    fn suspend(&mut self) {
        (**self).suspend();
    }
}

/// Documents in memory.
#[derive(Debug)]
pub struct DocList {
    docs: std::vec::IntoIter<DocBuf>,
    current: DocBuf,
}

impl DocList {
    /// A source of these documents.
    pub fn new(docs: Vec<DocBuf>) -> DocList {
        DocList { docs: docs.into_iter(), current: DocBuf::new() }
    }

    /// A source without documents.
    pub fn empty() -> DocList {
        DocList::new(Vec::new())
    }
}

impl DocSource for DocList {
    fn advance(&mut self, _: &Interrupt) -> Result<bool> {
        let next = self.docs.next();
        let found = next.is_some();
        self.current = next.unwrap_or_default();
        Ok(found)
    }

    fn current(&self) -> Doc<'_> {
        self.current.as_doc()
    }

    /// The documents are in memory.
    fn suspend(&mut self) {}
}

/// Documents kept for several readers: in memory up to the budget, then in a temporary file.
#[derive(Debug)]
pub(crate) struct Spool {
    budget: MemoryBudget,
    reservation: Reservation,
    bytes: Vec<u8>,
    file: Option<BufWriter<File>>,
}

impl Spool {
    pub fn new(budget: MemoryBudget) -> Spool {
        Spool { reservation: budget.reservation(), budget, bytes: Vec::new(), file: None }
    }

    /// Adds a document. If the budget forbids the file, the error names `stage`.
    pub fn push(&mut self, doc: Doc<'_>, stage: &str) -> Result<()> {
        let needed = self.bytes.len() + doc.as_bytes().len();
        if needed > self.budget.limit || !self.reservation.cover(needed) {
            let Some(directory) = &self.budget.directory else {
                let text = format!(
                    "Exceeded memory limit for {stage}, but didn't allow external sort. Pass allowDiskUse:true to \
                     opt in."
                );
                return Err(Error::new(code::QUERY_EXCEEDED_MEMORY_LIMIT, text));
            };
            let file = match &mut self.file {
                Some(file) => file,
                None => {
                    let file = tempfile::tempfile_in(directory).map_err(file_error)?;
                    self.file.insert(BufWriter::with_capacity(64 * 1024, file))
                }
            };
            file.write_all(&self.bytes).map_err(file_error)?;
            self.bytes.clear();
        }
        self.bytes.extend_from_slice(doc.as_bytes());
        Ok(())
    }

    /// A reader of all documents, from the first one. Readers of one spool must be used one after another, because they
    /// share the position of its file.
    pub fn read(self: &Arc<Spool>) -> Result<SpoolReader> {
        let file = match &self.file {
            Some(file) => {
                let mut file = file.get_ref().try_clone().map_err(file_error)?;
                file.rewind().map_err(file_error)?;
                Some(BufReader::with_capacity(64 * 1024, file))
            }
            None => None,
        };
        Ok(SpoolReader { spool: self.clone(), file, at: 0, end: 0, current: Vec::new(), ticks: 0 })
    }

    /// Ends writing.
    pub fn finish(mut self) -> Result<Arc<Spool>> {
        if let Some(file) = &mut self.file {
            file.flush().map_err(file_error)?;
        }
        Ok(Arc::new(self))
    }
}

/// How many documents pass between two checks of the interrupt.
const TICKS: u32 = 256;

/// Reads the documents of a [`Spool`]: first those in the file, then those in memory, which were added later.
#[derive(Debug)]
pub(crate) struct SpoolReader {
    spool: Arc<Spool>,
    file: Option<BufReader<File>>,
    /// The offset of the current document in memory.
    at: usize,
    end: usize,
    /// The current document from the file.
    current: Vec<u8>,
    ticks: u32,
}

impl SpoolReader {
    /// Reads the next document of the file; false at its end.
    fn advance_file(&mut self) -> Result<bool> {
        let Some(file) = &mut self.file else { return Ok(false) };
        let mut length = [0; 4];
        match file.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.file = None;
                return Ok(false);
            }
            Err(error) => return Err(file_error(error)),
        }
        self.current.clear();
        self.current.extend_from_slice(&length);
        self.current.resize((u32::from_le_bytes(length) as usize).max(5), 0);
        file.read_exact(&mut self.current[4..]).map_err(file_error)?;
        Ok(true)
    }
}

impl DocSource for SpoolReader {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(TICKS) {
            interrupt.check()?;
        }
        if self.advance_file()? {
            return Ok(true);
        }
        self.at = self.end;
        let length =
            self.spool.bytes[self.at..].first_chunk().map(|chunk| u32::from_le_bytes(*chunk) as usize);
        self.end = self.at + length.unwrap_or(0);
        Ok(length.is_some())
    }

    fn current(&self) -> Doc<'_> {
        if self.file.is_some() {
            return Doc::trusted(&self.current);
        }
        Doc::trusted(&self.spool.bytes[self.at..self.end])
    }

    /// The documents are in memory or in a temporary file.
    fn suspend(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    #[test]
    fn spool_reads_the_same_from_memory_and_file() {
        for limit in [usize::MAX, 100, 30] {
            let mut spool = Spool::new(MemoryBudget {
                limit,
                directory: Some(std::env::temp_dir()),
                ..Default::default()
            });
            for n in 0..50 {
                spool.push(doc! { "n": n }.as_doc(), "$facet").unwrap();
            }
            let spool = spool.finish().unwrap();
            for _ in 0..2 {
                let mut reader = spool.read().unwrap();
                let interrupt = Interrupt::new();
                for n in 0..50 {
                    assert!(reader.advance(&interrupt).unwrap());
                    assert_eq!(reader.current(), doc! { "n": n }.as_doc());
                }
                assert!(!reader.advance(&interrupt).unwrap());
                assert!(!reader.advance(&interrupt).unwrap());
            }
        }
    }

    #[test]
    fn spool_without_files_fails_beyond_its_budget() {
        let mut spool = Spool::new(MemoryBudget { limit: 20, ..Default::default() });
        spool.push(doc! { "n": 1 }.as_doc(), "$facet").unwrap();
        let error = spool.push(doc! { "n": 2 }.as_doc(), "$facet").unwrap_err();
        assert_eq!(error.code, 292);
    }
}
