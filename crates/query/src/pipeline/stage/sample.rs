//! `$sample`: a random sample of documents without bias.

use crate::error::{Error, Result};
use crate::expr::coerce;
use crate::external_sort::{ExternalSorter, SortedRecords};
use crate::interrupt::Interrupt;
use crate::memory::MemoryBudget;
use crate::pipeline::{DocSource, Execution, Operation};
use diwan_value::{Doc, Value};

/// Parses the stage's argument.
pub(crate) fn parse(spec: Value<'_>) -> Result<Operation> {
    let Value::Document(doc) = spec else {
        return Err(Error::new(28745, "the $sample stage specification must be an object"));
    };
    let mut size = None;
    for element in doc.iter() {
        match (element.key_str(), element.value()) {
            ("size", value) if value.is_number() => size = Some(number(value)?),
            ("size", _) => return Err(Error::new(28746, "size argument to $sample must be a number")),
            (other, _) => {
                return Err(Error::new(28748, format!("unrecognized option to $sample: {other}")));
            }
        }
    }
    size.map(Operation::Sample).ok_or_else(|| Error::new(28749, "$sample stage must specify a size"))
}

fn number(value: Value<'_>) -> Result<u64> {
    let whole = match value {
        Value::Double(number) if number.is_finite() => Some(number.trunc() as i64),
        other => coerce::as_i64(Some(other)),
    };
    match whole.and_then(|size| u64::try_from(size).ok()) {
        Some(size) if size > 0 => Ok(size),
        _ => Err(Error::new(28747, "size argument to $sample must be a positive integer")),
    }
}

/// Runs the stage over `input`: gives every document a random key and returns those with the smallest keys.
pub(crate) fn open(size: u64, input: Box<dyn DocSource>, execution: &Execution) -> Box<dyn DocSource> {
    Box::new(SampleSource { size, budget: execution.budget.clone(), input: Some(input), chosen: None })
}

struct SampleSource {
    size: u64,
    budget: MemoryBudget,
    /// The input, until it has been read.
    input: Option<Box<dyn DocSource>>,
    chosen: Option<SortedRecords>,
}

impl DocSource for SampleSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        if let Some(mut input) = self.input.take() {
            let limit = usize::try_from(self.size).unwrap_or(usize::MAX);
            let mut sorter = ExternalSorter::for_sort(self.budget.clone(), Some(limit));
            while input.advance(interrupt)? {
                sorter.add(&fastrand::u64(..).to_be_bytes(), input.current().as_bytes())?;
            }
            self.chosen = Some(sorter.finish()?);
        }
        let found = match &mut self.chosen {
            Some(chosen) => chosen.advance()?,
            None => false,
        };
        if !found {
            self.chosen = None;
        }
        Ok(found)
    }

    fn current(&self) -> Doc<'_> {
        self.chosen.as_ref().map_or(Doc::EMPTY, |chosen| Doc::trusted(chosen.payload()))
    }

    fn suspend(&mut self) {
        if let Some(input) = &mut self.input {
            input.suspend();
        }
    }
}
