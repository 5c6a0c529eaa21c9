//! `$unionWith`: appends the documents of another collection or pipeline.

use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::pipeline::{DocList, DocSource, Execution, Namespace, Pipeline, PipelineEnv};
use diwan_value::{Array, Doc, Value};
use std::sync::Arc;

/// A parsed `$unionWith`.
#[derive(Clone, Debug)]
pub struct UnionWith {
    /// Absent if the pipeline generates its documents.
    from: Option<Namespace>,
    pipeline: Pipeline,
}

impl UnionWith {
    /// Parses the stage's argument.
    pub(crate) fn parse(spec: Value<'_>, env: &PipelineEnv) -> Result<UnionWith> {
        let (mut collection, mut stages) = (None, None);
        match spec {
            Value::String(name) => collection = Some(name),
            Value::Document(doc) => {
                for element in doc.iter() {
                    match (element.key_str(), element.value()) {
                        ("coll", Value::String(name)) => collection = Some(name),
                        ("pipeline", Value::Array(array)) => stages = Some(array),
                        (name @ ("coll" | "pipeline"), other) => {
                            let expected = if name == "coll" { "string" } else { "array" };
                            let text = format!(
                                "BSON field '$unionWith.{name}' is the wrong type '{}', expected type '{expected}'",
                                other.tag().alias()
                            );
                            return Err(Error::type_mismatch(text));
                        }
                        (name, _) => {
                            let text = format!("BSON field '$unionWith.{name}' is an unknown field.");
                            return Err(Error::new(40415, text));
                        }
                    }
                }
            }
            other => {
                let text = format!(
                    "the $unionWith stage specification must be an object or string, but found {}",
                    other.tag().alias()
                );
                return Err(Error::failed_to_parse(text));
            }
        }
        if collection.is_none() && !begins_with_documents(stages) {
            let text = "$unionWith stage without explicit collection must have a pipeline with $documents as first \
                        stage";
            return Err(Error::failed_to_parse(text));
        }
        let inner = env.nested("$unionWith", collection)?;
        let pipeline = Pipeline::parse(stages.unwrap_or(Array::EMPTY), &inner)?;
        Ok(UnionWith { from: collection.map(|name| env.namespace(name)), pipeline })
    }

    /// Runs the stage over `input`.
    pub(crate) fn open(
        self: &Arc<UnionWith>,
        input: Box<dyn DocSource>,
        execution: &Execution,
    ) -> Box<dyn DocSource> {
        Box::new(UnionSource {
            union: self.clone(),
            execution: execution.clone(),
            source: input,
            second: false,
        })
    }
}

/// Whether a list of stages begins with one that generates documents.
pub(crate) fn begins_with_documents(stages: Option<Array<'_>>) -> bool {
    let first = stages.and_then(|stages| stages.get(0)).and_then(Value::as_doc);
    first.is_some_and(|stage| stage.contains_key("$documents"))
}

/// Opens `pipeline` over `from`, or without a collection.
pub(crate) fn open_source(
    from: Option<&Namespace>,
    pipeline: &Pipeline,
    execution: &Execution,
) -> Result<Box<dyn DocSource>> {
    match from {
        Some(from) => {
            let execution = Execution { namespace: from.clone(), ..execution.clone() };
            execution.collections.open(from, pipeline, &execution)
        }
        None => pipeline.open(Box::new(DocList::empty()), execution),
    }
}

/// The running stage.
struct UnionSource {
    union: Arc<UnionWith>,
    execution: Execution,
    source: Box<dyn DocSource>,
    /// Whether `source` is already the other collection.
    second: bool,
}

impl DocSource for UnionSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        if self.source.advance(interrupt)? {
            return Ok(true);
        }
        if self.second {
            return Ok(false);
        }
        self.second = true;
        self.source = open_source(self.union.from.as_ref(), &self.union.pipeline, &self.execution)?;
        self.source.advance(interrupt)
    }

    fn current(&self) -> Doc<'_> {
        self.source.current()
    }

    fn suspend(&mut self) {
        self.source.suspend();
    }
}
