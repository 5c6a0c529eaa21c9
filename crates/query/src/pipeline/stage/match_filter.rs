//! `$match`: passes on the documents that match a filter.

use crate::error::{Error, Result};
use crate::expr::Context;
use crate::filter::{Filter, FilterEnv};
use crate::interrupt::Interrupt;
use crate::pipeline::{DocSource, Execution, Operation, PipelineEnv};
use diwan_value::{Doc, Value};
use std::sync::Arc;

/// Parses the stage's argument.
pub(crate) fn parse(spec: Value<'_>, env: &PipelineEnv) -> Result<Operation> {
    let Value::Document(doc) = spec else {
        return Err(Error::new(15959, "the match filter must be an expression in an object"));
    };
    let scope = env.scope();
    let filter = Filter::parse(doc, &FilterEnv { context: env.context.clone(), scope: Some(&scope) })?;
    Ok(Operation::Match(Arc::new(filter)))
}

/// Runs the stage over `input`.
pub(crate) fn open(
    filter: Arc<Filter>,
    input: Box<dyn DocSource>,
    execution: &Execution,
) -> Box<dyn DocSource> {
    Box::new(MatchSource { filter, context: execution.context.clone(), input })
}

/// The running stage.
struct MatchSource {
    filter: Arc<Filter>,
    context: Arc<Context>,
    input: Box<dyn DocSource>,
}

impl DocSource for MatchSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        while self.input.advance(interrupt)? {
            if self.filter.matches_in(self.input.current(), &self.context)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn current(&self) -> Doc<'_> {
        self.input.current()
    }

    fn suspend(&mut self) {
        self.input.suspend();
    }
}
