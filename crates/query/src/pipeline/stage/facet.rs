//! `$facet`: runs several pipelines over the same documents and returns their results as arrays of one document.

use crate::display::ShownField;
use crate::error::{Error, Result, code};
use crate::interrupt::Interrupt;
use crate::memory::{DEFAULT_MEMORY_LIMIT, Reservation};
use crate::pipeline::source::Spool;
use crate::pipeline::{DocSource, Execution, Pipeline, PipelineEnv};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuilder, Value};
use std::sync::Arc;

/// A parsed `$facet`.
#[derive(Clone, Debug)]
pub struct Facet {
    facets: Vec<(String, Pipeline)>,
}

impl Facet {
    /// Parses the stage's argument.
    pub(crate) fn parse(spec: Value<'_>, env: &PipelineEnv) -> Result<Facet> {
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

    /// Runs the stage over `input`.
    pub(crate) fn open(
        self: &Arc<Facet>,
        input: Box<dyn DocSource>,
        execution: &Execution,
    ) -> Box<dyn DocSource> {
        Box::new(FacetSource {
            facet: self.clone(),
            execution: execution.clone(),
            input: Some(input),
            // The result is one document, which no file could hold.
            reservation: execution.budget.pool.reservation(false),
            out: Vec::new(),
        })
    }
}

fn check_name(name: &str) -> Result<()> {
    let reason = if name.is_empty() {
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
    Err(Error::new(reason.0, reason.1))
}

/// The running stage.
struct FacetSource {
    facet: Arc<Facet>,
    execution: Execution,
    /// The input, until it has been read.
    input: Option<Box<dyn DocSource>>,
    /// For the result.
    reservation: Reservation,
    out: Vec<u8>,
}

impl DocSource for FacetSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        let Some(mut input) = self.input.take() else {
            self.out = Vec::new();
            self.reservation.release();
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
                check_size(builder.len() + results.len(), &mut self.reservation)?;
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

/// Rejects a result that exceeds the memory limit or the pool. A larger result than fits a reply is allowed, because later
/// stages may reduce it.
fn check_size(bytes: usize, reservation: &mut Reservation) -> Result<()> {
    if bytes > DEFAULT_MEMORY_LIMIT {
        let text = format!(
            "document constructed by $facet is {bytes} bytes, which exceeds the limit of {DEFAULT_MEMORY_LIMIT} bytes"
        );
        return Err(Error::new(4031700, text));
    }
    if !reservation.cover(bytes) {
        let text = format!(
            "document constructed by $facet is {bytes} bytes, which is more memory than other operations leave"
        );
        return Err(Error::new(code::QUERY_EXCEEDED_MEMORY_LIMIT, text));
    }
    Ok(())
}
