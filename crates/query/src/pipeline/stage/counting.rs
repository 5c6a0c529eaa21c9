//! `$skip`, `$limit` and `$count`.

use crate::display::ShownField;
use crate::error::{Error, Result};
use crate::expr::coerce;
use crate::interrupt::Interrupt;
use crate::pipeline::{DocSource, Operation};
use diwan_value::{Doc, DocBuf, DocBuilder, Value};
use std::sync::Arc;

/// Parses the argument of `$limit`.
pub(crate) fn parse_limit(spec: Value<'_>) -> Result<Operation> {
    match parse_number("$limit", 5107201, spec)? {
        0 => Err(Error::new(15958, "the limit must be positive")),
        limit => Ok(Operation::Limit(limit)),
    }
}

/// Parses the argument of `$skip`.
pub(crate) fn parse_skip(spec: Value<'_>) -> Result<Operation> {
    parse_number("$skip", 5107200, spec).map(Operation::Skip)
}

/// Parses a number that is not negative.
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

/// Parses the argument of `$count`.
pub(crate) fn parse_count(spec: Value<'_>) -> Result<Operation> {
    let Value::String(name) = spec else {
        return Err(Error::new(40156, "the count field must be a non-empty string"));
    };
    let reason = match name {
        "" => Some((40157, "the count field must be a non-empty string")),
        _ if name.starts_with('$') => Some((40158, "the count field cannot be a $-prefixed path")),
        _ if name.contains('\0') => Some((40159, "the count field cannot contain a null byte")),
        _ if name.contains('.') => Some((40160, "the count field cannot contain '.'")),
        "_id" => Some((9039800, "the count field cannot be '_id'")),
        _ => None,
    };
    match reason {
        Some((number, text)) => Err(Error::new(number, text)),
        None => Ok(Operation::Count(name.into())),
    }
}

/// Skips the first `count` documents.
pub(crate) fn skip(count: u64, input: Box<dyn DocSource>) -> Box<dyn DocSource> {
    Box::new(SkipSource { left: count, input })
}

/// Ends after `count` documents.
pub(crate) fn limit(count: u64, input: Box<dyn DocSource>) -> Box<dyn DocSource> {
    Box::new(LimitSource { left: count, input })
}

/// Counts the documents into one field. Without documents there is no result.
pub(crate) fn count(field: Arc<str>, input: Box<dyn DocSource>) -> Box<dyn DocSource> {
    Box::new(CountSource { field, input: Some(input), current: DocBuf::new() })
}

struct SkipSource {
    left: u64,
    input: Box<dyn DocSource>,
}

impl DocSource for SkipSource {
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

struct LimitSource {
    left: u64,
    input: Box<dyn DocSource>,
}

impl DocSource for LimitSource {
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

struct CountSource {
    field: Arc<str>,
    /// The input, until it has been read.
    input: Option<Box<dyn DocSource>>,
    current: DocBuf,
}

impl DocSource for CountSource {
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

/// The result document of a `$count`.
pub fn count_document(field: &str, count: i64) -> DocBuf {
    let mut builder = DocBuilder::new();
    match i32::try_from(count) {
        Ok(count) => builder.append(field, count),
        Err(_) => builder.append(field, count),
    };
    builder.finish()
}
