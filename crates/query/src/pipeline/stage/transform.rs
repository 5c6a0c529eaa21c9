//! The stages that transform single documents: `$project`, `$unset`, `$addFields`, `$set`, `$replaceRoot`,
//! `$replaceWith`. Pipeline updates consist of them.

use crate::display::{Shown, ShownDoc};
use crate::error::{Error, Result, code};
use crate::expr::{Context, EvalEnv, Expr, ParseEnv};
use crate::interrupt::Interrupt;
use crate::pipeline::{AddFields, DocSource, Execution};
use crate::projection::{Origin, Projection};
use bumpalo::Bump;
use diwan_value::{Doc, DocBuilder, Value};
use std::sync::Arc;

/// A stage that transforms one document into one document.
#[derive(Debug)]
pub enum Transform {
    /// `$project`, `$unset`.
    Project(Projection),
    /// `$addFields`, `$set`.
    AddFields(AddFields),
    /// `$replaceRoot`, `$replaceWith`.
    Replace(Expr),
}

impl Transform {
    /// Parses the argument of the stage `name`.
    pub fn parse(name: &str, spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Transform> {
        match name {
            "$project" => Projection::parse_stage(spec, scope).map(Transform::Project),
            "$unset" => Projection::parse_unset(spec).map(Transform::Project),
            "$addFields" | "$set" => AddFields::parse(spec, name, scope).map(Transform::AddFields),
            "$replaceRoot" => Expr::parse(new_root(spec)?, scope).map(Transform::Replace),
            "$replaceWith" => Expr::parse(spec, scope).map(Transform::Replace),
            _ => Err(Error::new(40324, format!("Unrecognized pipeline stage name: '{name}'"))),
        }
    }

    /// Parses a stage of a pipeline that transforms single documents: that of an update or of a `$merge`.
    pub(crate) fn parse_stage(stage: Value<'_>, scope: &ParseEnv<'_>) -> Result<Transform> {
        let Value::Document(stage) = stage else {
            return Err(Error::type_mismatch("Each element of the 'pipeline' array must be an object"));
        };
        let mut elements = stage.iter();
        let (Some(element), None) = (elements.next(), elements.next()) else {
            let text = "A pipeline stage specification object must contain exactly one field.";
            return Err(Error::new(40323, text));
        };
        match Transform::parse(element.key_str(), element.value(), scope) {
            // The stage exists but does not transform single documents.
            Err(error) if error.code == 40324 && crate::pipeline::table::is_stage(element.key_str()) => {
                let text = format!("{} is not allowed to be used within an update", element.key_str());
                Err(Error::new(code::INVALID_OPTIONS, text))
            }
            parsed => parsed,
        }
    }

    /// The origin of the top-level field `name` in the output; `None` if the stage computes it, or may compute it.
    pub(crate) fn origin(&self, name: &str) -> Option<Origin> {
        match self {
            Transform::Project(projection) => projection.origin(name),
            Transform::AddFields(fields) if fields.names().all(|known| known != name) => Some(Origin::Same),
            Transform::AddFields(_) | Transform::Replace(_) => None,
        }
    }

    /// Appends the transformed document of `env` to `out`.
    pub fn apply<'a>(&'a self, env: &EvalEnv<'a>, out: &mut DocBuilder) -> Result<()> {
        let doc = env.root();
        match self {
            Transform::Project(projection) => projection.apply(doc, None, env, out),
            Transform::AddFields(fields) => fields.apply(doc, env, out),
            Transform::Replace(expr) => match expr.eval(env)? {
                Some(Value::Document(new)) => {
                    out.append_all(new);
                    Ok(())
                }
                other => Err(not_a_document(other, doc)),
            },
        }
    }
}

/// Parses the `newRoot` of a `$replaceRoot`.
fn new_root(spec: Value<'_>) -> Result<Value<'_>> {
    let Value::Document(doc) = spec else {
        let text =
            format!("expected an object as specification for $replaceRoot stage, got {}", spec.tag().alias());
        return Err(Error::new(40229, text));
    };
    if let Some(other) = doc.iter().find(|element| element.key != b"newRoot") {
        let text = format!("BSON field '$replaceRoot.{}' is an unknown field.", other.key_str());
        return Err(Error::new(40415, text));
    }
    doc.get("newRoot")
        .ok_or_else(|| Error::new(40414, "BSON field '$replaceRoot.newRoot' is missing but a required field"))
}

/// The error for a replacement that is not a document.
fn not_a_document(value: Option<Value<'_>>, doc: Doc<'_>) -> Error {
    let shown = value.map_or_else(|| "MISSING".to_owned(), |value| Shown(value).to_string());
    let kind = value.map_or("missing", |value| value.tag().alias());
    let text = format!(
        "'newRoot' expression must evaluate to an object, but resulting value was: {shown}. Type of resulting value: \
         '{kind}'. Input document: {}",
        ShownDoc(doc)
    );
    Error::new(40228, text)
}

/// Runs the stage over `input`.
pub(crate) fn open(
    transform: Arc<Transform>,
    input: Box<dyn DocSource>,
    execution: &Execution,
) -> Box<dyn DocSource> {
    let context = execution.context.clone();
    Box::new(TransformSource { transform, context, input, arena: Bump::new(), out: Vec::new() })
}

/// The running stage.
struct TransformSource {
    transform: Arc<Transform>,
    context: Arc<Context>,
    input: Box<dyn DocSource>,
    arena: Bump,
    out: Vec<u8>,
}

impl DocSource for TransformSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        self.out.clear();
        if !self.input.advance(interrupt)? {
            return Ok(false);
        }
        self.arena.reset();
        let env = EvalEnv::new(&self.arena, self.input.current(), &self.context);
        let mut builder = DocBuilder::with_buffer(std::mem::take(&mut self.out));
        self.transform.apply(&env, &mut builder)?;
        self.out = builder.finish_buffer();
        Ok(true)
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
