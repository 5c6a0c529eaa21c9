//! `$facet`: several pipelines over the same documents, their results as arrays of one document.

use super::source::Spool;
use super::{DocSource, Execution, Namespace, Pipeline, PipelineEnv};
use crate::display::ShownField;
use crate::error::{Error, Result};
use crate::external_sort::DEFAULT_MEMORY_LIMIT;
use crate::interrupt::Interrupt;
use diwan_value::{Array, ArrayBuilder, Doc, DocBuilder, Value};
use std::sync::Arc;

/// A parsed `$facet`.
#[derive(Clone, Debug)]
pub struct Facet {
    facets: Vec<(String, Pipeline)>,
}

impl Facet {
    /// Parses the stage's argument.
    pub(super) fn parse(spec: Value<'_>, env: &PipelineEnv) -> Result<Facet> {
        let Some(doc) = spec.as_doc().filter(|doc| !doc.is_empty()) else {
            let text = format!(
                "the $facet specification must be a non-empty object, but found: {}",
                ShownField("$facet", spec)
            );
            return Err(Error::new(40169, text));
        };
        let inner = env.nested("$facet", env.collection.as_deref())?;
        let mut facets: Vec<(String, Pipeline)> = Vec::new();
        for element in doc.iter() {
            let name = element.key_str();
            check_name(name)?;
            let Value::Array(stages) = element.value() else {
                let text = format!(
                    "arguments to $facet must be arrays, {} is type {}",
                    ShownField(name, element.value()),
                    element.raw.tag.alias()
                );
                return Err(Error::new(40170, text));
            };
            facets.push((name.to_owned(), Pipeline::parse(stages, &inner)?));
        }
        Ok(Facet { facets })
    }

    /// Adds the collections that the pipelines read.
    pub(super) fn add_sources(&self, namespaces: &mut Vec<Namespace>) {
        self.facets.iter().for_each(|(_, pipeline)| pipeline.add_sources(namespaces));
    }

    /// Runs the stage over `input`.
    pub(super) fn open(
        self: &Arc<Facet>,
        input: Box<dyn DocSource>,
        execution: &Execution,
    ) -> Box<dyn DocSource> {
        Box::new(Faceting {
            facet: self.clone(),
            execution: execution.clone(),
            input: Some(input),
            out: Vec::new(),
        })
    }
}

fn check_name(name: &str) -> Result<()> {
    let refusal = if name.is_empty() {
        (15998, "FieldPath field names may not be empty strings.".to_owned())
    } else if name.starts_with('$') {
        (
            16410,
            format!(
                "FieldPath field names may not start with '$'. Consider using $getField or $setField. The field name is '{name}'"
            ),
        )
    } else if name.contains('.') {
        (
            16412,
            format!(
                "FieldPath field names may not contain '.'. Consider using $getField or $setField. The field name is '{name}'"
            ),
        )
    } else {
        return Ok(());
    };
    Err(Error::new(refusal.0, refusal.1))
}

/// The running stage.
struct Faceting {
    facet: Arc<Facet>,
    execution: Execution,
    /// Until it was read.
    input: Option<Box<dyn DocSource>>,
    out: Vec<u8>,
}

impl DocSource for Faceting {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        let Some(mut input) = self.input.take() else {
            self.out.clear();
            return Ok(false);
        };
        let mut spool = Spool::new(self.execution.budget.clone());
        while input.advance(interrupt)? {
            spool.push(input.current(), "$facet")?;
        }
        drop(input);
        let spool = spool.finish()?;
        let mut builder = DocBuilder::new();
        for (name, pipeline) in &self.facet.facets {
            let mut docs = pipeline.open(Box::new(spool.read()?), &self.execution)?;
            let mut results = ArrayBuilder::new();
            while docs.advance(interrupt)? {
                results.push(docs.current());
                check_size(builder.len() + results.len())?;
            }
            builder.append(name, Array::trusted(&results.finish()));
        }
        self.out = builder.finish().into_bytes();
        Ok(true)
    }

    fn current(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn suspend(&mut self) {
        if let Some(input) = &mut self.input {
            input.suspend();
        }
    }
}

/// Refuses a result that outgrows memory; later stages may still make it small enough for a reply.
fn check_size(bytes: usize) -> Result<()> {
    if bytes <= DEFAULT_MEMORY_LIMIT {
        return Ok(());
    }
    let text = format!(
        "document constructed by $facet is {bytes} bytes, which exceeds the limit of {DEFAULT_MEMORY_LIMIT} bytes"
    );
    Err(Error::new(4031700, text))
}
