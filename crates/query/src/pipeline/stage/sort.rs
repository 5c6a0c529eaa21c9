//! `$sort`: sorts all documents, or finds the first ones if a `$limit` follows.

use crate::error::Result;
use crate::expr::Context;
use crate::external_sort::{ExternalSorter, SortedRecords};
use crate::interrupt::Interrupt;
use crate::memory::MemoryBudget;
use crate::pipeline::{DocSource, Execution};
use crate::sort::Sort;
use diwan_value::{Doc, Value};
use std::sync::Arc;

/// A parsed `$sort`.
#[derive(Clone, Debug)]
pub struct SortStage {
    /// The order.
    pub sort: Sort,
    /// How many documents the following stages read, if they have a limit.
    pub limit: Option<u64>,
}

impl SortStage {
    /// Parses the stage's argument.
    pub(crate) fn parse(spec: Value<'_>) -> Result<SortStage> {
        Ok(SortStage { sort: Sort::parse_stage(spec)?, limit: None })
    }

    /// Runs the stage over `input`.
    pub(crate) fn open(
        self: &Arc<SortStage>,
        input: Box<dyn DocSource>,
        execution: &Execution,
    ) -> Box<dyn DocSource> {
        Box::new(SortSource {
            stage: self.clone(),
            context: execution.context.clone(),
            budget: execution.budget.clone(),
            phase: SortPhase::Reading(input),
        })
    }
}

/// The running stage.
struct SortSource {
    stage: Arc<SortStage>,
    context: Arc<Context>,
    budget: MemoryBudget,
    phase: SortPhase,
}

enum SortPhase {
    Reading(Box<dyn DocSource>),
    Sorted(SortedRecords),
    Done,
}

impl SortStage {
    fn read(
        &self,
        input: &mut dyn DocSource,
        context: &Context,
        budget: &MemoryBudget,
        interrupt: &Interrupt,
    ) -> Result<SortedRecords> {
        let limit = self.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mut sorter = ExternalSorter::for_sort(budget.clone(), limit);
        let mut key = Vec::new();
        while input.advance(interrupt)? {
            let doc = input.current();
            key.clear();
            self.sort.key(doc, context.collator.as_deref(), &mut key)?;
            sorter.add(&key, doc.as_bytes())?;
        }
        sorter.finish()
    }
}

impl DocSource for SortSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        if let SortPhase::Reading(input) = &mut self.phase {
            let records = self.stage.read(input.as_mut(), &self.context, &self.budget, interrupt)?;
            self.phase = SortPhase::Sorted(records);
        }
        let found = match &mut self.phase {
            SortPhase::Sorted(records) => records.advance()?,
            SortPhase::Reading(_) | SortPhase::Done => false,
        };
        if !found {
            self.phase = SortPhase::Done;
        }
        Ok(found)
    }

    fn current(&self) -> Doc<'_> {
        match &self.phase {
            SortPhase::Sorted(records) => Doc::trusted(records.payload()),
            SortPhase::Reading(_) | SortPhase::Done => Doc::EMPTY,
        }
    }

    fn suspend(&mut self) {
        match &mut self.phase {
            SortPhase::Reading(input) => input.suspend(),
            SortPhase::Sorted(records) => records.suspend(),
            SortPhase::Done => {}
        }
    }
}
