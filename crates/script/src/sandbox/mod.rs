//! The sandbox: QuickJS contexts with limits, and calls of a design document's functions in them.
//!
//! A context belongs to one design document for its whole life, so no data passes from one design document to another.
//! Unused contexts are pooled; when there are too many, the least recently used one is dropped. A context that exceeded
//! a limit is dropped immediately.

mod context;
mod convert;
mod list;
mod map;
mod trial;

pub use list::{ListCall, ListEvent};
pub(crate) use map::{Emitted, MapDocument, Mapper, Reducer};
pub use trial::Fault;
pub(crate) use trial::{TrialMapper, compilation_fault};

use crate::design::Design;
use crate::error::{Error, Result};
use crate::json;
use crate::reduce::ReduceLimit;
use context::Context;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::time::Duration;

/// The limits of a script.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The memory of one context, in bytes.
    pub memory: usize,
    /// The time of one call.
    pub time: Duration,
    /// The stack size, in bytes.
    pub stack: usize,
    /// The output of one call, in bytes.
    pub output: usize,
    /// How many unused contexts the pool keeps.
    pub idle: usize,
    /// The limit of a reduction.
    pub reduce: ReduceLimit,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory: 64 << 20,
            time: Duration::from_secs(5),
            stack: 256 << 10,
            output: 32 << 20,
            idle: 16,
            reduce: ReduceLimit::default(),
        }
    }
}

/// Runs the functions of design documents.
pub struct Sandbox {
    limits: RwLock<Limits>,
    /// Unused contexts by the fingerprint of their design document, least recently used first.
    idle: Mutex<Vec<([u8; 16], Context)>>,
}

impl Sandbox {
    /// A sandbox with these limits.
    pub fn new(limits: Limits) -> Arc<Sandbox> {
        Arc::new(Sandbox { limits: RwLock::new(limits), idle: Mutex::default() })
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        *self.limits.read()
    }

    /// Changes the limit of reductions that are computed from now on.
    pub fn limit_reductions(&self, limit: ReduceLimit) {
        if self.limits().reduce != limit {
            self.limits.write().reduce = limit;
        }
    }

    /// Compiles the view functions of a design document before it is stored.
    pub fn check(&self, design: &Design) -> Result<()> {
        crate::design::check_members(design)?;
        if design.language() != "javascript" {
            return Ok(());
        }
        let context = Context::new(self.limits())?;
        for (name, view) in design.views() {
            let failed = |kind: &str, error: Error| match error {
                Error::Compilation(reason) => Error::Compilation(format!(
                    "Compilation of the {kind} function in the '{name}' view failed: {reason}"
                )),
                other => other,
            };
            context.invoke("check", &[&view.map]).map_err(|error| failed("map", error))?;
            match &view.reduce {
                Some(reduce) if reduce.starts_with('_') => {
                    crate::reduce::builtin::Builtin::parse(reduce)?;
                }
                Some(reduce) => {
                    context.invoke("check", &[reduce]).map_err(|error| failed("reduce", error))?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Calls a filter function. Returns for each document whether it passes. All arguments are JSON texts.
    pub fn filter(&self, design: &Design, name: &str, docs: &[&str], request: &str) -> Result<Vec<bool>> {
        let args = format!("[[{}],{request}]", docs.join(","));
        booleans(&self.call(design, &["filters", name], &args)?)
    }

    /// Uses the map function of a view as a filter: a document passes if the function emits anything.
    pub fn filter_by_view(&self, design: &Design, view: &str, docs: &[&str]) -> Result<Vec<bool>> {
        let args = format!("[[{}]]", docs.join(","));
        booleans(&self.call(design, &["views", view, "map"], &args)?)
    }

    /// Calls the design document's `validate_doc_update` to check a write. `old` is `null` for a new document.
    pub fn validate_doc_update(
        &self,
        design: &Design,
        new: &str,
        old: &str,
        user: &str,
        security: &str,
    ) -> Result<()> {
        self.call(design, &["validate_doc_update"], &format!("[{new},{old},{user},{security}]")).map(|_| ())
    }

    /// Calls an update function. Returns the document to write, or `None`, and the response as JSON.
    pub fn update(
        &self,
        design: &Design,
        name: &str,
        doc: &str,
        request: &str,
    ) -> Result<(Option<String>, String)> {
        let answer = self.call(design, &["updates", name], &format!("[{doc},{request}]"))?;
        let mut parts = json::elements(&answer).map(str::to_owned);
        let written = parts.next().filter(|doc| doc != "null");
        Ok((written, parts.next().unwrap_or_else(|| "{}".to_owned())))
    }

    /// Calls a show function. Returns the response as JSON.
    pub fn show(&self, design: &Design, name: &str, doc: &str, request: &str) -> Result<String> {
        self.call(design, &["shows", name], &format!("[{doc},{request}]"))
    }

    /// Calls the rewrite function. Returns its result as JSON.
    pub fn rewrite(&self, design: &Design, request: &str) -> Result<String> {
        self.call(design, &["rewrites"], &format!("[{request}]"))
    }

    /// Begins a call of a list function. The caller then supplies rows.
    pub fn list(self: &Arc<Self>, design: &Design, name: &str, request: &str) -> Result<ListCall> {
        ListCall::begin(self.clone(), design, name, request)
    }

    fn call(&self, design: &Design, path: &[&str], args: &str) -> Result<String> {
        let context = self.take(design)?;
        let outcome = context.invoke("call", &[&path_text(path), args]);
        self.give_back(design, context, &outcome);
        outcome
    }

    /// Takes a context that contains the design document from the pool, or makes one.
    fn take(&self, design: &Design) -> Result<Context> {
        if design.language() != "javascript" {
            return Err(Error::Thrown {
                name: "unknown_query_language".to_owned(),
                reason: design.language().to_owned(),
            });
        }
        {
            let mut idle = self.idle.lock();
            if let Some(at) = idle.iter().rposition(|(fingerprint, _)| *fingerprint == design.fingerprint()) {
                return Ok(idle.remove(at).1);
            }
        }
        let context = Context::new(self.limits())?;
        context.invoke("load", &[design.text()])?;
        Ok(context)
    }

    fn give_back<T>(&self, design: &Design, context: Context, outcome: &Result<T>) {
        if matches!(outcome, Err(Error::Timeout(_) | Error::Exhausted(_))) {
            return;
        }
        let mut idle = self.idle.lock();
        idle.push((design.fingerprint(), context));
        if idle.len() > self.limits().idle {
            let oldest = idle.remove(0);
            drop(idle);
            drop(oldest);
        }
    }
}

fn path_text(path: &[&str]) -> String {
    let steps: Vec<String> = path.iter().map(|step| json::quoted(step)).collect();
    format!("[{}]", steps.join(","))
}

fn booleans(answer: &str) -> Result<Vec<bool>> {
    Ok(json::elements(answer).map(|element| element == "true").collect())
}

#[cfg(test)]
mod tests;
