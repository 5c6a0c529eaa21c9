//! `$merge`: writes the pipeline's documents into a collection one by one.

use super::out::{check_target, parse_target};
use crate::accumulator::overlay;
use crate::display::Shown;
use crate::error::{Error, Result, code};
use crate::expr::{Context, EvalEnv, Expr, check_new_variable, field_path};
use crate::interrupt::Interrupt;
use crate::pipeline::{DocSource, Execution, MergeWrite, Namespace, PipelineEnv, Transform};
use bumpalo::Bump;
use diwan_value::{Array, Doc, DocBuf, DocBuilder, Path, Value, ValueBuf};
use std::sync::Arc;

/// A parsed `$merge`.
#[derive(Debug)]
pub struct Merge {
    target: Namespace,
    on: Vec<Path>,
    matched: WhenMatched,
    not_matched: WhenNotMatched,
}

/// What happens to a document that is found in the target.
#[derive(Debug)]
enum WhenMatched {
    Replace,
    KeepExisting,
    Merge,
    Fail,
    Pipeline { variables: Vec<(String, Expr)>, stages: Vec<Transform> },
}

/// What happens if no document is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhenNotMatched {
    Insert,
    Discard,
    Fail,
}

impl Merge {
    /// Parses the stage's argument.
    pub(crate) fn parse(spec: Value<'_>, env: &PipelineEnv) -> Result<Merge> {
        let defaults = DocBuf::new();
        let (target, options) = match spec {
            Value::String(collection) => (env.namespace(collection), defaults.as_doc()),
            Value::Document(doc) => (parse_into(doc, env)?, doc),
            other => {
                let text =
                    format!("$merge requires a string or object argument, but found {}", other.tag().alias());
                return Err(Error::type_mismatch(text));
            }
        };
        check_target("$merge", 31319, 31320, &target)?;
        let (mut on, mut bindings) = (vec![Path::new("_id")], None);
        let (mut when_matched, mut not_matched) = (Value::String("merge"), WhenNotMatched::Insert);
        for element in options.iter() {
            let value = element.value();
            match element.key_str() {
                "into" => {}
                "on" => on = parse_on(value)?,
                "whenMatched" => when_matched = value,
                "whenNotMatched" => not_matched = parse_not_matched(value)?,
                "let" => {
                    bindings = Some(value.as_doc().ok_or_else(|| {
                        let text = format!(
                            "BSON field '$merge.let' is the wrong type '{}', expected type 'object'",
                            value.tag().alias()
                        );
                        Error::type_mismatch(text)
                    })?);
                }
                other => {
                    let text = format!("BSON field '$merge.{other}' is an unknown field.");
                    return Err(Error::new(40415, text));
                }
            }
        }
        let matched = parse_matched(when_matched, bindings, env)?;
        let supported = match matched {
            WhenMatched::KeepExisting | WhenMatched::Fail => not_matched == WhenNotMatched::Insert,
            _ => true,
        };
        if !supported {
            let text = format!(
                "Combination of $merge modes 'whenMatched: {}' and 'whenNotMatched: {}' is not supported",
                when_matched.as_str().unwrap_or("pipeline"),
                not_matched.name()
            );
            return Err(Error::new(51181, text));
        }
        Ok(Merge { target, on, matched, not_matched })
    }

    /// The target collection.
    pub fn target(&self) -> &Namespace {
        &self.target
    }

    /// Runs the stage over `input`.
    pub(crate) fn open(
        self: &Arc<Merge>,
        input: Box<dyn DocSource>,
        execution: &Execution,
    ) -> Result<Box<dyn DocSource>> {
        execution.collections.check_merge_key(&self.target, &self.on)?;
        Ok(Box::new(MergeSource { merge: self.clone(), execution: execution.clone(), input: Some(input) }))
    }

    /// Writes one document.
    fn write(&self, doc: Doc<'_>, execution: &Execution) -> Result<()> {
        let key = self.key(doc)?;
        let mut decide = |found: Option<Doc<'_>>| match found {
            Some(found) => self.merged(found, doc, &execution.context),
            None => match self.not_matched {
                WhenNotMatched::Insert => Ok(MergeWrite::Put(doc.to_owned())),
                WhenNotMatched::Discard => Ok(MergeWrite::Keep),
                WhenNotMatched::Fail => {
                    let text = "$merge could not find a matching document in the target collection for at least one \
                                document in the source collection";
                    Err(Error::new(code::MERGE_STAGE_NO_MATCHING_DOCUMENT, text))
                }
            },
        };
        let key = key.as_ref().map(DocBuf::as_doc);
        let replaces = matches!(self.matched, WhenMatched::Replace);
        execution.collections.merge(&self.target, key, &mut decide, replaces, execution).map_err(|error| {
            match error.code {
                code::DUPLICATE_KEY => error.in_context("$merge failed due to a DuplicateKey error"),
                _ => error,
            }
        })
    }

    /// The values of the `on` fields; `None` if the document has no `_id` yet, so that no document can match.
    fn key(&self, doc: Doc<'_>) -> Result<Option<DocBuf>> {
        let mut key = DocBuilder::new();
        for path in &self.on {
            match path.get(doc) {
                None if path.as_str() == "_id" => return Ok(None),
                None | Some(Value::Null | Value::Undefined) => {
                    let text = format!(
                        "$merge write error: 'on' field '{path}' cannot be missing, null, undefined or an array"
                    );
                    return Err(Error::new(51132, text));
                }
                Some(Value::Array(_)) => {
                    let text = format!(
                        "$merge write error: 'on' field '{path}' cannot be missing, null, undefined or an array"
                    );
                    return Err(Error::new(51185, text));
                }
                Some(value) => key.append(path.as_str(), value),
            };
        }
        Ok(Some(key.finish()))
    }

    /// The decision for `found`, which has the same key as `doc`.
    fn merged(&self, found: Doc<'_>, doc: Doc<'_>, context: &Context) -> Result<MergeWrite> {
        let new = match &self.matched {
            WhenMatched::KeepExisting => return Ok(MergeWrite::Keep),
            WhenMatched::Fail => return Ok(MergeWrite::Duplicate),
            WhenMatched::Replace => doc.to_owned(),
            WhenMatched::Merge => overlay(found, doc),
            WhenMatched::Pipeline { variables, stages } => {
                run_when_matched(variables, stages, found, doc, context)?
            }
        };
        let new = keep_id(found, new)?;
        Ok(if new.as_doc() == found { MergeWrite::Keep } else { MergeWrite::Put(new) })
    }
}

impl WhenNotMatched {
    fn name(self) -> &'static str {
        match self {
            WhenNotMatched::Insert => "insert",
            WhenNotMatched::Discard => "discard",
            WhenNotMatched::Fail => "fail",
        }
    }
}

/// Runs the `whenMatched` pipeline over `found`, with the new document as `$$new`.
fn run_when_matched(
    variables: &[(String, Expr)],
    stages: &[Transform],
    found: Doc<'_>,
    new: Doc<'_>,
    context: &Context,
) -> Result<DocBuf> {
    let mut arena = Bump::new();
    let mut bound = context.clone();
    {
        let env = EvalEnv::new(&arena, new, context);
        for (_, expr) in variables {
            bound.variables.push(expr.eval(&env)?.map(ValueBuf::new));
        }
    }
    let mut current = found.to_owned();
    for stage in stages {
        arena.reset();
        let mut out = DocBuilder::new();
        stage.apply(&EvalEnv::new(&arena, current.as_doc(), &bound), &mut out)?;
        current = out.finish();
    }
    Ok(current)
}

/// `new` with the `_id` of `found`. `new` may omit the `_id` but not change it.
fn keep_id(found: Doc<'_>, new: DocBuf) -> Result<DocBuf> {
    let Some(id) = found.get("_id") else { return Ok(new) };
    match new.as_doc().get("_id") {
        Some(same) if diwan_value::compare(same, id).is_eq() => Ok(new),
        None => {
            let mut builder = DocBuilder::new();
            builder.append("_id", id).append_all(new.as_doc());
            Ok(builder.finish())
        }
        Some(other) => {
            let text = format!(
                "$merge failed to update the matching document, did you attempt to modify the _id or the shard key? :: \
                 caused by :: The _id field cannot be changed from {{_id: {}}} to {{_id: {}}}.",
                Shown(id),
                Shown(other)
            );
            Err(Error::new(code::IMMUTABLE_FIELD, text))
        }
    }
}

fn parse_into(spec: Doc<'_>, env: &PipelineEnv) -> Result<Namespace> {
    match spec.get("into") {
        None => Err(Error::new(40414, "BSON field '$merge.into' is missing but a required field")),
        Some(Value::String(collection)) => Ok(env.namespace(collection)),
        Some(Value::Document(target)) => parse_target("$merge.into", target, env),
        Some(other) => {
            let text = format!(
                "$merge 'into' field  must be either a string or an object, but found {}",
                other.tag().alias()
            );
            Err(Error::new(51178, text))
        }
    }
}

fn parse_on(spec: Value<'_>) -> Result<Vec<Path>> {
    let names: Vec<&str> = match spec {
        Value::String(name) => vec![name],
        Value::Array(names) => {
            let name = |item: Value<'_>| {
                let text =
                    format!("$merge 'on' array elements must be strings, but found {}", item.tag().alias());
                Error::new(51134, text)
            };
            names.iter().map(|item| item.as_str().ok_or_else(|| name(item))).collect::<Result<_>>()?
        }
        other => {
            let text = format!(
                "$merge 'on' field  must be either a string or an array of strings, but found {}",
                other.tag().alias()
            );
            return Err(Error::new(51186, text));
        }
    };
    if names.is_empty() {
        let text = "If explicitly specifying $merge 'on', must include at least one field";
        return Err(Error::new(51187, text));
    }
    let mut paths: Vec<Path> = Vec::new();
    for name in names {
        let path = field_path(name)?;
        if paths.contains(&path) {
            return Err(Error::new(31465, format!("Found a duplicate field '{name}'")));
        }
        paths.push(path);
    }
    Ok(paths)
}

fn parse_not_matched(spec: Value<'_>) -> Result<WhenNotMatched> {
    match spec {
        Value::String("insert") => Ok(WhenNotMatched::Insert),
        Value::String("discard") => Ok(WhenNotMatched::Discard),
        Value::String("fail") => Ok(WhenNotMatched::Fail),
        Value::String(other) => {
            let text = format!(
                "Enumeration value '{other}' for field '$merge.whenNotMatched' is not a valid value."
            );
            Err(Error::bad_value(text))
        }
        other => {
            let text = format!(
                "BSON field '$merge.whenNotMatched' is the wrong type '{}', expected type 'string'",
                other.tag().alias()
            );
            Err(Error::type_mismatch(text))
        }
    }
}

fn parse_matched(spec: Value<'_>, bindings: Option<Doc<'_>>, env: &PipelineEnv) -> Result<WhenMatched> {
    let (name, mode) = match spec {
        Value::Array(stages) => return parse_pipeline(stages, bindings, env),
        Value::String(name @ "replace") => (name, WhenMatched::Replace),
        Value::String(name @ "keepExisting") => (name, WhenMatched::KeepExisting),
        Value::String(name @ "merge") => (name, WhenMatched::Merge),
        Value::String(name @ "fail") => (name, WhenMatched::Fail),
        Value::String(other) => {
            let text = format!("Enumeration value '{other}' for field 'whenMatched' is not a valid value.");
            return Err(Error::bad_value(text));
        }
        other => {
            let text = format!(
                "$merge 'whenMatched' field  must be either a string or an array, but found {}",
                other.tag().alias()
            );
            return Err(Error::new(51191, text));
        }
    };
    if bindings.is_some() {
        let text = format!("Cannot use 'let' variables with 'whenMatched: {name}' mode");
        return Err(Error::new(51199, text));
    }
    Ok(mode)
}

/// Parses a `whenMatched` pipeline. Its variables are those of the `let`, and `new`.
fn parse_pipeline(stages: Array<'_>, bindings: Option<Doc<'_>>, env: &PipelineEnv) -> Result<WhenMatched> {
    let scope = env.scope();
    let mut inner = env.nested("$merge", None)?;
    let mut variables = Vec::new();
    for element in bindings.unwrap_or(Doc::EMPTY).iter() {
        let (name, value) = (element.key_str(), element.value());
        check_new_variable(name)?;
        if name == "new" {
            if value != Value::String("$$ROOT") {
                let text = "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'";
                return Err(Error::new(51273, text));
            }
            continue;
        }
        variables.push((name.to_owned(), Expr::parse(value, &scope)?));
    }
    variables.push(("new".to_owned(), Expr::parse(Value::String("$$ROOT"), &scope)?));
    inner.variables.extend(variables.iter().map(|(name, _)| name.clone()));
    let scope = inner.scope();
    let stages = stages.iter().map(|stage| Transform::parse_stage(stage, &scope));
    Ok(WhenMatched::Pipeline { variables, stages: stages.collect::<Result<_>>()? })
}

/// The running stage. It writes all documents at the first step and yields none.
struct MergeSource {
    merge: Arc<Merge>,
    execution: Execution,
    /// The input, until it has been read.
    input: Option<Box<dyn DocSource>>,
}

impl DocSource for MergeSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        let Some(mut input) = self.input.take() else { return Ok(false) };
        while input.advance(interrupt)? {
            self.merge.write(input.current(), &self.execution)?;
        }
        Ok(false)
    }

    fn current(&self) -> Doc<'_> {
        Doc::EMPTY
    }

    fn suspend(&mut self) {
        if let Some(input) = &mut self.input {
            input.suspend();
        }
    }
}
