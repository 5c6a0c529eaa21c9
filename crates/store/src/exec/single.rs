//! A source of one document that has been found already.

use crate::collection::StoredDocument;
use diwan_query::pipeline::DocSource;
use diwan_query::{Interrupt, Result};
use diwan_value::Doc;

/// A source of one document or none.
pub(crate) struct Single {
    next: Option<StoredDocument>,
    current: Option<StoredDocument>,
}

impl Single {
    pub fn new(found: Option<StoredDocument>) -> Single {
        Single { next: found, current: None }
    }
}

impl DocSource for Single {
    fn advance(&mut self, _: &Interrupt) -> Result<bool> {
        self.current = self.next.take();
        Ok(self.current.is_some())
    }

    fn current(&self) -> Doc<'_> {
        self.current.as_ref().map_or(Doc::EMPTY, StoredDocument::doc)
    }

    /// Does nothing: the source holds a document, but no view of the store.
    fn suspend(&mut self) {}
}
