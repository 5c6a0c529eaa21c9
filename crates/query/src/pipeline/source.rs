//! How documents flow: every stage is a source that pulls from the source before it.

use crate::error::Result;
use crate::external_sort::{MemoryBudget, file_error};
use crate::interrupt::Interrupt;
use crate::{Error, code};
use diwan_value::{Doc, DocBuf};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::sync::Arc;

/// A stream of documents. A document is borrowed from the source and stands until the next step, so that a scan can
/// lend the bytes of its block and no stage copies what it only looks at. A source that may step for long without giving
/// a document asks the interrupt now and then.
pub trait DocSource: Send {
    /// Goes to the next document; false at the end, and from then on.
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool>;

    /// The document that the last [`DocSource::advance`] went to; an empty one if it went to none.
    fn current(&self) -> Doc<'_>;

    /// Tells that nobody will step for a while (between two batches of a cursor): what pins a snapshot is let go and
    /// found again at the next step. A source that has an input hands this on as long as it has it. There is no default,
    /// so that no source forgets it.
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

/// Documents that lie in memory already.
#[derive(Debug)]
pub struct DocList {
    docs: std::vec::IntoIter<DocBuf>,
    current: DocBuf,
}

impl DocList {
    /// A source of `docs`.
    pub fn new(docs: Vec<DocBuf>) -> DocList {
        DocList { docs: docs.into_iter(), current: DocBuf::new() }
    }

    /// A source of nothing.
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

    /// All of it lies in memory.
    fn suspend(&mut self) {}
}

/// Documents kept to be read several times: in memory while they fit the budget, then in a temporary file.
#[derive(Debug)]
pub(crate) struct Spool {
    budget: MemoryBudget,
    bytes: Vec<u8>,
    file: Option<BufWriter<File>>,
}

impl Spool {
    pub fn new(budget: MemoryBudget) -> Spool {
        Spool { budget, bytes: Vec::new(), file: None }
    }

    /// Adds a document; `stage` is who is named if the budget forbids the file that it needs.
    pub fn push(&mut self, doc: Doc<'_>, stage: &str) -> Result<()> {
        if self.bytes.len() + doc.as_bytes().len() > self.budget.limit {
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

    /// A reader of all documents, from the first one. Readers of one spool are used one after another: those of a
    /// file share its position.
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

/// How many documents pass between two looks at the interrupt.
const TICKS: u32 = 256;

/// Reads a [`Spool`]'s documents: first the file's, then those in memory, which are younger.
#[derive(Debug)]
pub(crate) struct SpoolReader {
    spool: Arc<Spool>,
    file: Option<BufReader<File>>,
    /// Where the current document lies in memory.
    at: usize,
    end: usize,
    /// The current document of the file.
    current: Vec<u8>,
    ticks: u32,
}

impl SpoolReader {
    /// Reads the file's next document; false at its end.
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

    /// What is read lies in memory or in a file of its own.
    fn suspend(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    #[test]
    fn a_spool_reads_the_same_from_memory_and_from_a_file() {
        for limit in [usize::MAX, 100, 30] {
            let mut spool = Spool::new(MemoryBudget { limit, directory: Some(std::env::temp_dir()) });
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
    fn a_spool_that_may_not_use_files_says_so() {
        let mut spool = Spool::new(MemoryBudget { limit: 20, directory: None });
        spool.push(doc! { "n": 1 }.as_doc(), "$facet").unwrap();
        let error = spool.push(doc! { "n": 2 }.as_doc(), "$facet").unwrap_err();
        assert_eq!(error.code, 292);
    }
}
