//! Map and reduce functions. A mapper's context runs all map functions of a design document on each document.

use super::context::{Context, entry_points};
use super::{Limits, convert};
use crate::design::Design;
use crate::error::{Error, Result};
use crate::reduce::ReduceLimit;
use diwan_value::Doc;
use rquickjs::{CatchResultExt, Ctx, Function, Object, Value};

/// A document to map.
#[derive(Clone, Copy)]
pub(crate) struct MapDocument<'a> {
    /// The id as text.
    pub id: &'a str,
    /// The revision as text.
    pub revision: Option<&'a str>,
    /// Further members as JSON without braces: conflicts, attachments, the sequence.
    pub more: &'a str,
    /// The body.
    pub doc: Doc<'a>,
}

/// The output of one map function for one document.
pub(crate) struct Emitted<'a> {
    text: &'a str,
    ends: &'a [(usize, usize)],
}

impl<'a> Emitted<'a> {
    /// Pairs whose keys and values stand one after another in `text`, with the end of each key and each value.
    pub(super) fn new(text: &'a str, ends: &'a [(usize, usize)]) -> Emitted<'a> {
        Emitted { text, ends }
    }

    /// The number of pairs.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The keys and values as JSON, in emission order.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let (text, ends) = (self.text, self.ends);
        let mut start = 0;
        ends.iter().map(move |&(key_end, end)| {
            let pair = (&text[start..key_end], &text[key_end..end]);
            start = end;
            pair
        })
    }
}

/// The map functions of a design document, compiled in their own context.
pub(crate) struct Mapper {
    pub(super) context: Context,
    functions: usize,
}

impl Mapper {
    /// Compiles the map functions of the views.
    pub fn new(limits: Limits, design: &Design) -> Result<Mapper> {
        let context = Context::new(limits)?;
        if !design.library().is_empty() {
            context.invoke("library", &[design.library()])?;
        }
        for (name, view) in design.views() {
            context.invoke("addMap", &[&view.map]).map_err(|error| match error {
                Error::Compilation(reason) => Error::Compilation(format!(
                    "Compilation of the map function in the '{name}' view failed: {reason}"
                )),
                other => other,
            })?;
        }
        Ok(Mapper { context, functions: design.views().len() })
    }

    /// Maps documents. For each document and each function, `emitted` is called with the output; `index` is the number
    /// of the document and `view` that of the function. A function that throws emits nothing for the document, and the
    /// error is logged.
    pub fn map<'d>(
        &self,
        docs: impl Iterator<Item = MapDocument<'d>>,
        mut emitted: impl FnMut(usize, usize, Emitted<'_>) -> Result<()>,
    ) -> Result<()> {
        self.context.enter(|ctx| {
            let functions = self.prepare(ctx)?;
            for (index, doc) in docs.enumerate() {
                let make = || {
                    self.context.begin_call();
                    convert::document(ctx, doc.id, doc.revision, doc.more, doc.doc).catch(ctx)
                };
                let mut object = Some(make().map_err(|caught| self.context.error_of(caught))?);
                for (view, function) in functions.iter().enumerate() {
                    // Each function gets a new object, because the previous function may have changed its own.
                    let argument = match object.take() {
                        Some(object) => object,
                        None => make().map_err(|caught| self.context.error_of(caught))?,
                    };
                    self.context.shared.emitted.lock().clear();
                    let outcome = function.call::<_, Value<'_>>((argument,)).map(drop).catch(ctx);
                    if let Err(caught) = outcome {
                        self.skip(ctx, doc.id, caught)?;
                        continue;
                    }
                    if self.context.shared.emitted.lock().overflowed {
                        return Err(self.context.too_much());
                    }
                    // Takes the buffer out of its lock, because the receiver may take long.
                    let buffer = std::mem::take(&mut *self.context.shared.emitted.lock());
                    let told = emitted(index, view, Emitted { text: &buffer.text, ends: &buffer.ends });
                    *self.context.shared.emitted.lock() = buffer;
                    told?;
                }
            }
            Ok(())
        })
    }

    pub(super) fn prepare<'js>(&self, ctx: &Ctx<'js>) -> Result<Vec<Function<'js>>> {
        let list = || {
            let maps: Object<'js> = entry_points(ctx)?.get("maps")?;
            (0..self.functions)
                .map(|at| maps.get(at.to_string()))
                .collect::<rquickjs::Result<Vec<Function<'js>>>>()
        };
        list().catch(ctx).map_err(|caught| self.context.error_of(caught))
    }

    /// Logs an error thrown by a function. Fails if a limit was exceeded or the error is fatal.
    fn skip<'js>(&self, ctx: &Ctx<'js>, id: &str, caught: rquickjs::CaughtError<'js>) -> Result<()> {
        if self.context.shared.emitted.lock().overflowed {
            return Err(self.context.too_much());
        }
        let thrown = match caught {
            rquickjs::CaughtError::Value(value) if !value.is_null() && !self.context.shared.is_expired() => {
                value
            }
            rquickjs::CaughtError::Exception(exception) if !self.context.shared.is_expired() => {
                exception.into_object().into_value()
            }
            other => return Err(self.context.error_of(other)),
        };
        let is_fatal =
            thrown.as_string().is_some_and(|text| text.to_string().is_ok_and(|text| text == "fatal_error"));
        if is_fatal {
            return Err(Error::Thrown {
                name: "map_runtime_error".to_owned(),
                reason: "function raised 'fatal_error'".to_owned(),
            });
        }
        // Describing the error may run the script's code, under the time limit of another call.
        let described = self.context.invoke_with(ctx, "describe", (thrown,));
        match described {
            Err(error @ (Error::Exhausted(_) | Error::Timeout(_))) => Err(error),
            Err(Error::Thrown { name, reason }) if name == "fatal" => Err(Error::Thrown { name, reason }),
            Err(error) => {
                tracing::info!(target: "diwan::script", "function raised exception {error} with doc._id {id}");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

/// The JavaScript reduce functions of a design document.
pub(crate) struct Reducer {
    limit: ReduceLimit,
    context: Context,
}

impl Reducer {
    /// A reducer without functions.
    pub fn new(limits: Limits) -> Result<Reducer> {
        Ok(Reducer { limit: limits.reduce, context: Context::new(limits)? })
    }

    /// Compiles a function. Functions are numbered from 0.
    pub fn add(&self, view: &str, source: &str) -> Result<()> {
        let added = self.context.invoke("addReduce", &[source]);
        added.map(drop).map_err(|error| match error {
            Error::Compilation(reason) => Error::Compilation(format!(
                "Compilation of the reduce function in the '{view}' view failed: {reason}"
            )),
            other => other,
        })
    }

    /// The limit of its results.
    pub fn limit(&self) -> ReduceLimit {
        self.limit
    }

    /// Reduces values. `keys` is the list of `[key, id]`, or `None` when earlier results are reduced again.
    pub fn reduce(&self, function: usize, keys: Option<&str>, values: &str) -> Result<String> {
        self.context
            .enter(|ctx| self.context.invoke_with(ctx, "reduce", (function, keys, values, keys.is_none())))
    }
}
