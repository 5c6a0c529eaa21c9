//! A sort that no index gives: all documents are read first.

use diwan_query::external_sort::{ExternalSorter, SortedRecords};
use diwan_query::pipeline::DocSource;
use diwan_query::sort::Sort;
use diwan_query::{Interrupt, MemoryBudget, Result};
use diwan_value::{Collator, Doc};
use std::sync::Arc;

/// The documents of a source in another order.
pub(crate) struct Sorted<S> {
    source: S,
    /// Selects the document to keep for each document of the source.
    kept: for<'s> fn(&'s S) -> Doc<'s>,
    sort: Sort,
    collator: Option<Arc<Collator>>,
    sorter: Option<ExternalSorter>,
    records: Option<SortedRecords>,
}

impl<S: DocSource> Sorted<S> {
    /// The first `limit` documents of `source` in the order of `sort`; all of them without a limit.
    pub fn new(
        source: S,
        sort: Sort,
        collator: Option<Arc<Collator>>,
        budget: MemoryBudget,
        limit: Option<usize>,
    ) -> Sorted<S> {
        Sorted {
            source,
            kept: S::current,
            sort,
            collator,
            sorter: Some(ExternalSorter::for_sort(budget, limit)),
            records: None,
        }
    }

    /// The same, but with `kept` of each document in its place.
    pub fn keeping(self, kept: for<'s> fn(&'s S) -> Doc<'s>) -> Sorted<S> {
        Sorted { kept, ..self }
    }

    fn fill(&mut self, mut sorter: ExternalSorter, interrupt: &Interrupt) -> Result<SortedRecords> {
        let mut key = Vec::new();
        while self.source.advance(interrupt)? {
            let doc = self.source.current();
            key.clear();
            self.sort.key(doc, self.collator.as_deref(), &mut key)?;
            sorter.add(&key, (self.kept)(&self.source).as_bytes())?;
        }
        self.source.suspend();
        sorter.finish()
    }
}

impl<S: DocSource> DocSource for Sorted<S> {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        if let Some(sorter) = self.sorter.take() {
            self.records = Some(self.fill(sorter, interrupt)?);
        }
        match &mut self.records {
            Some(records) => records.advance(),
            None => Ok(false),
        }
    }

    fn current(&self) -> Doc<'_> {
        self.records.as_ref().map_or(Doc::EMPTY, |records| Doc::trusted(records.payload()))
    }

    fn suspend(&mut self) {
        self.source.suspend();
        if let Some(records) = &mut self.records {
            records.suspend();
        }
    }
}
