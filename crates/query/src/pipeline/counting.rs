//! `$skip`, `$limit` and `$count`.

use super::{DocSource, Operation};
use crate::display::ShownField;
use crate::error::{Error, Result};
use crate::expr::coerce;
use crate::interrupt::Interrupt;
use diwan_value::{Doc, DocBuf, DocBuilder, Value};
use std::sync::Arc;

/// Parses `$limit`'s argument.
pub(super) fn parse_limit(spec: Value<'_>) -> Result<Operation> {
    match parse_number("$limit", 5107201, spec)? {
        0 => Err(Error::new(15958, "the limit must be positive")),
        limit => Ok(Operation::Limit(limit)),
    }
}

/// Parses `$skip`'s argument.
pub(super) fn parse_skip(spec: Value<'_>) -> Result<Operation> {
    parse_number("$skip", 5107200, spec).map(Operation::Skip)
}

/// A number that is not negative.
fn parse_number(stage: &str, number: i32, spec: Value<'_>) -> Result<u64> {
    let shown = ShownField(stage, spec);
    let invalid =
        |reason: String| Err(Error::new(number, format!("invalid argument to {stage} stage: {reason}")));
    if !spec.is_number() {
        return invalid(format!("Expected a number in: {shown}"));
    }
    match coerce::as_i64(Some(spec)) {
        None => invalid(format!("Expected an integer: {shown}")),
        Some(count) => match u64::try_from(count) {
            Ok(count) => Ok(count),
            Err(_) => invalid(format!("Expected a non-negative number in: {shown}")),
        },
    }
}

/// Parses `$count`'s argument.
pub(super) fn parse_count(spec: Value<'_>) -> Result<Operation> {
    let Value::String(name) = spec else {
        return Err(Error::new(40156, "the count field must be a non-empty string"));
    };
    let refusal = match name {
        "" => Some((40157, "the count field must be a non-empty string")),
        _ if name.starts_with('$') => Some((40158, "the count field cannot be a $-prefixed path")),
        _ if name.contains('\0') => Some((40159, "the count field cannot contain a null byte")),
        _ if name.contains('.') => Some((40160, "the count field cannot contain '.'")),
        "_id" => Some((9039800, "the count field cannot be '_id'")),
        _ => None,
    };
    match refusal {
        Some((number, text)) => Err(Error::new(number, text)),
        None => Ok(Operation::Count(name.into())),
    }
}

/// Leaves out the first `count` documents.
pub(super) fn skip(count: u64, input: Box<dyn DocSource>) -> Box<dyn DocSource> {
    Box::new(Skip { left: count, input })
}

/// Ends after `count` documents.
pub(super) fn limit(count: u64, input: Box<dyn DocSource>) -> Box<dyn DocSource> {
    Box::new(Limit { left: count, input })
}

/// Counts the documents into one field; nothing comes of no document.
pub(super) fn count(field: Arc<str>, input: Box<dyn DocSource>) -> Box<dyn DocSource> {
    Box::new(Count { field, input: Some(input), current: DocBuf::new() })
}

struct Skip {
    left: u64,
    input: Box<dyn DocSource>,
}

impl DocSource for Skip {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        while self.left > 0 {
            if !self.input.advance(interrupt)? {
                return Ok(false);
            }
            self.left -= 1;
        }
        self.input.advance(interrupt)
    }

    fn current(&self) -> Doc<'_> {
        self.input.current()
    }

    fn suspend(&mut self) {
        self.input.suspend();
    }
}

struct Limit {
    left: u64,
    input: Box<dyn DocSource>,
}

impl DocSource for Limit {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let found = self.input.advance(interrupt)?;
        if !found {
            self.left = 0;
        }
        Ok(found)
    }

    fn current(&self) -> Doc<'_> {
        self.input.current()
    }

    fn suspend(&mut self) {
        self.input.suspend();
    }
}

struct Count {
    field: Arc<str>,
    /// Until it was read.
    input: Option<Box<dyn DocSource>>,
    current: DocBuf,
}

impl DocSource for Count {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        let Some(mut input) = self.input.take() else {
            self.current = DocBuf::new();
            return Ok(false);
        };
        let mut count: i64 = 0;
        while input.advance(interrupt)? {
            count += 1;
        }
        self.current = count_document(&self.field, count);
        Ok(count > 0)
    }

    fn current(&self) -> Doc<'_> {
        self.current.as_doc()
    }

    fn suspend(&mut self) {
        if let Some(input) = &mut self.input {
            input.suspend();
        }
    }
}

/// The one document of a `$count`.
pub fn count_document(field: &str, count: i64) -> DocBuf {
    let mut builder = DocBuilder::new();
    match i32::try_from(count) {
        Ok(count) => builder.append(field, count),
        Err(_) => builder.append(field, count),
    };
    builder.finish()
}
