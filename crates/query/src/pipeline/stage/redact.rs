//! `$redact`: keeps, removes or descends into each level of a document, as an expression decides.

use crate::display::Shown;
use crate::error::{Error, Result};
use crate::expr::{Context, EvalEnv, Expr, ParseEnv, Slot};
use crate::interrupt::Interrupt;
use crate::pipeline::{DocSource, Execution};
use bumpalo::Bump;
use diwan_value::{Array, ArrayBuilder, Doc, DocBuilder, Value};
use std::sync::Arc;

/// The values of `$$DESCEND`, `$$PRUNE` and `$$KEEP`.
const DESCEND: &str = "descend";
const PRUNE: &str = "prune";
const KEEP: &str = "keep";

/// A parsed `$redact`.
#[derive(Debug)]
pub struct Redact {
    decision: Expr,
    /// `$$ROOT`. Field paths and `$$CURRENT` mean the level that is decided on.
    root: Slot,
}

impl Redact {
    /// Parses the stage's argument.
    pub(crate) fn parse(spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Redact> {
        let mut scope = scope.inner();
        let root = scope.variable("ROOT");
        scope.constant("DESCEND", Value::String(DESCEND));
        scope.constant("PRUNE", Value::String(PRUNE));
        scope.constant("KEEP", Value::String(KEEP));
        Ok(Redact { decision: Expr::parse(spec, &scope)?, root })
    }

    /// Runs the stage over `input`.
    pub(crate) fn open(
        self: &Arc<Redact>,
        input: Box<dyn DocSource>,
        execution: &Execution,
    ) -> Box<dyn DocSource> {
        let context = execution.context.clone();
        Box::new(RedactSource { redact: self.clone(), context, input, arena: Bump::new(), out: Vec::new() })
    }
}

/// A document that is being redacted.
struct Redaction<'a> {
    redact: &'a Redact,
    context: &'a Context,
    arena: &'a Bump,
    root: Doc<'a>,
}

impl<'a> Redaction<'a> {
    /// Writes what is left of a level. Returns false if nothing is.
    fn level(&self, doc: Doc<'a>, out: &mut DocBuilder) -> Result<bool> {
        let env = EvalEnv::new(self.arena, doc, self.context);
        env.bind(self.redact.root, Some(Value::Document(self.root)));
        match self.redact.decision.eval(&env)? {
            Some(Value::String(KEEP)) => {
                out.append_all(doc);
                Ok(true)
            }
            Some(Value::String(PRUNE)) => Ok(false),
            Some(Value::String(DESCEND)) => {
                for field in doc.iter() {
                    match field.value() {
                        Value::Document(inner) => {
                            let mut level = DocBuilder::new();
                            if self.level(inner, &mut level)? {
                                out.append(field.key_str(), level.finish());
                            }
                        }
                        Value::Array(array) => {
                            let left = self.array(array)?;
                            out.append(field.key_str(), Value::Array(Array::trusted(&left)));
                        }
                        _ => {
                            out.append_element(field);
                        }
                    }
                }
                Ok(true)
            }
            other => {
                let found = other.map_or_else(|| "MISSING".to_owned(), |value| Shown(value).to_string());
                let text = format!(
                    "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and \
                     $$PRUNE, but returned {found}"
                );
                Err(Error::new(17053, text))
            }
        }
    }

    /// The elements of an array, of which documents are levels of their own.
    fn array(&self, array: Array<'a>) -> Result<Vec<u8>> {
        let mut out = ArrayBuilder::new();
        for value in array.iter() {
            match value {
                Value::Document(inner) => {
                    let mut level = DocBuilder::new();
                    if self.level(inner, &mut level)? {
                        out.push(level.finish());
                    }
                }
                Value::Array(inner) => {
                    let left = self.array(inner)?;
                    out.push(Value::Array(Array::trusted(&left)));
                }
                other => {
                    out.push(other);
                }
            }
        }
        Ok(out.finish())
    }
}

/// The running stage.
struct RedactSource {
    redact: Arc<Redact>,
    context: Arc<Context>,
    input: Box<dyn DocSource>,
    arena: Bump,
    out: Vec<u8>,
}

impl DocSource for RedactSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        self.out.clear();
        while self.input.advance(interrupt)? {
            self.arena.reset();
            let root = self.input.current();
            let redaction =
                Redaction { redact: &self.redact, context: &self.context, arena: &self.arena, root };
            let mut builder = DocBuilder::with_buffer(std::mem::take(&mut self.out));
            let is_left = redaction.level(root, &mut builder)?;
            self.out = builder.finish_buffer();
            if is_left {
                return Ok(true);
            }
            self.out.clear();
        }
        Ok(false)
    }

    fn current(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn suspend(&mut self) {
        // An idle cursor keeps no document.
        (self.out, self.arena) = (Vec::new(), Bump::new());
        self.input.suspend();
    }
}
