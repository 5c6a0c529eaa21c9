//! The last steps of a find: skip and limit, index keys, and the projection.

use super::Scan;
use diwan_query::pipeline::DocSource;
use diwan_query::{Interrupt, Result};
use diwan_value::{Doc, DocBuf};

/// A source that skips some documents of another one, and then returns a limited number.
pub(crate) struct Window<S> {
    source: S,
    skip: u64,
    left: Option<u64>,
}

impl<S> Window<S> {
    pub fn new(source: S, skip: u64, limit: Option<u64>) -> Window<S> {
        Window { source, skip, left: limit }
    }
}

impl<S: DocSource> DocSource for Window<S> {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        while self.skip > 0 {
            if !self.source.advance(interrupt)? {
                return Ok(false);
            }
            self.skip -= 1;
        }
        if self.left == Some(0) {
            return Ok(false);
        }
        let found = self.source.advance(interrupt)?;
        if found && let Some(left) = &mut self.left {
            *left -= 1;
        }
        Ok(found)
    }

    fn current(&self) -> Doc<'_> {
        self.source.current()
    }

    fn suspend(&mut self) {
        self.source.suspend();
    }
}

/// A source of the index keys by which a scan found its documents.
pub(crate) struct FoundKeys {
    scan: Scan,
}

impl FoundKeys {
    pub fn new(scan: Scan) -> FoundKeys {
        FoundKeys { scan }
    }
}

impl DocSource for FoundKeys {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        self.scan.advance(interrupt)
    }

    fn current(&self) -> Doc<'_> {
        self.scan.key()
    }

    fn suspend(&mut self) {
        self.scan.suspend();
    }
}

/// A source that applies a function to each document of another one.
pub(crate) struct Projected<S, F> {
    source: S,
    project: F,
    current: DocBuf,
}

impl<S, F> Projected<S, F> {
    pub fn new(source: S, project: F) -> Projected<S, F> {
        Projected { source, project, current: DocBuf::new() }
    }
}

impl<S: DocSource, F: FnMut(Doc<'_>) -> Result<DocBuf> + Send> DocSource for Projected<S, F> {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        let found = self.source.advance(interrupt)?;
        if found {
            self.current = (self.project)(self.source.current())?;
        }
        Ok(found)
    }

    fn current(&self) -> Doc<'_> {
        self.current.as_doc()
    }

    fn suspend(&mut self) {
        self.source.suspend();
    }
}
