//! Runs a map function for the person who writes it: one document at a time, with the place of each error.

use super::context::Context;
use super::map::{MapDocument, Mapper};
use super::{Limits, convert};
use crate::design::Design;
use crate::error::{Error, Result};
use crate::json;
use rquickjs::{CatchResultExt, CaughtError, Ctx, Value};

/// An error in a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub message: String,
    /// The line in the function's source, from 1.
    pub line: Option<u32>,
    /// The column in that line, from 1.
    pub column: Option<u32>,
}

impl Fault {
    /// An error whose place is unknown.
    pub(crate) fn of(error: &Error) -> Fault {
        Fault { message: error.reason(), line: None, column: None }
    }

    /// Parses what the context's entry points return: the message, the line and the column.
    fn parse(text: &str) -> Fault {
        let mut parts = json::elements(text);
        let message = json::unquote(parts.next().unwrap_or("\"\"")).into_owned();
        let mut number = || parts.next().and_then(|part| part.parse().ok()).filter(|number| *number > 0);
        Fault { message, line: number(), column: number() }
    }
}

/// Why a function does not compile; `None` if it does.
pub(crate) fn compilation_fault(source: &str, limits: Limits) -> Result<Option<Fault>> {
    let answer = Context::new(limits)?.invoke("compilationFault", &[source])?;
    Ok((answer != "null").then(|| Fault::parse(&answer)))
}

/// A map function in its own context.
pub(crate) struct TrialMapper(Mapper);

impl TrialMapper {
    /// Compiles the only view of a temporary design document.
    pub fn new(limits: Limits, design: &Design) -> Result<TrialMapper> {
        Mapper::new(limits, design).map(TrialMapper)
    }

    /// Maps a document: the keys and values as JSON, or why the function failed. An exceeded limit is an error, after
    /// which the mapper must not be used again.
    pub fn map(
        &self,
        document: MapDocument<'_>,
    ) -> Result<std::result::Result<Vec<(String, String)>, Fault>> {
        let context = &self.0.context;
        context.enter(|ctx| {
            let functions = self.0.prepare(ctx)?;
            context.begin_call();
            let object = convert::document(ctx, document.id, document.revision, document.more, document.doc)
                .catch(ctx)
                .map_err(|caught| context.error_of(caught))?;
            context.shared.emitted.lock().clear();
            for function in functions {
                if let Err(caught) = function.call::<_, Value<'_>>((object.clone(),)).map(drop).catch(ctx) {
                    return self.fault(ctx, caught).map(Err);
                }
            }
            let buffer = context.shared.emitted.lock();
            if buffer.overflowed {
                return Err(context.too_much());
            }
            let emitted = super::Emitted::new(&buffer.text, &buffer.ends);
            Ok(Ok(emitted.pairs().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()))
        })
    }

    /// The fault of an error that the function threw. Fails if a limit was exceeded.
    fn fault<'js>(&self, ctx: &Ctx<'js>, caught: CaughtError<'js>) -> Result<Fault> {
        let context = &self.0.context;
        if context.shared.emitted.lock().overflowed {
            return Err(context.too_much());
        }
        let thrown = match caught {
            CaughtError::Value(value) if !value.is_null() && !context.shared.is_expired() => value,
            CaughtError::Exception(exception) if !context.shared.is_expired() => {
                exception.into_object().into_value()
            }
            other => return Err(context.error_of(other)),
        };
        // Describing the error may run the script's code, under the time limit of another call.
        match context.invoke_with(ctx, "fault", (thrown,)) {
            Ok(text) => Ok(Fault::parse(&text)),
            Err(error @ (Error::Exhausted(_) | Error::Timeout(_))) => Err(error),
            Err(error) => Ok(Fault::of(&error)),
        }
    }
}
