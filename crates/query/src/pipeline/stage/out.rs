//! `$out`: replaces the contents of a collection with the pipeline's documents.

use crate::error::{Error, Result, code};
use crate::interrupt::Interrupt;
use crate::pipeline::{DocSource, Execution, Namespace, PipelineEnv};
use diwan_value::{Doc, Value};
use std::sync::Arc;

/// Parses the stage's argument, the target.
pub(crate) fn parse(spec: Value<'_>, env: &PipelineEnv) -> Result<Namespace> {
    let target = match spec {
        Value::String(collection) => env.namespace(collection),
        Value::Document(doc) => {
            if doc.contains_key("timeseries") {
                return Err(Error::new(
                    code::NOT_IMPLEMENTED,
                    "$out to a time-series collection is not implemented",
                ));
            }
            parse_target("$out", doc, env)?
        }
        other => {
            let text =
                format!("$out only supports a string or object argument, but found {}", other.tag().alias());
            return Err(Error::new(16990, text));
        }
    };
    check_target("$out", 17385, 31321, &target)?;
    Ok(target)
}

/// Parses a target of the form `{db: …, coll: …}`. Errors name `stage`.
pub(crate) fn parse_target(stage: &str, doc: Doc<'_>, env: &PipelineEnv) -> Result<Namespace> {
    let (mut database, mut collection) = (None, None);
    for element in doc.iter() {
        let name = element.key_str();
        let place = match name {
            "db" => &mut database,
            "coll" => &mut collection,
            _ => {
                let text = format!("BSON field '{stage}.{name}' is an unknown field.");
                return Err(Error::new(40415, text));
            }
        };
        let Value::String(value) = element.value() else {
            let text = format!(
                "BSON field '{stage}.{name}' is the wrong type '{}', expected type 'string'",
                element.raw.tag.alias()
            );
            return Err(Error::type_mismatch(text));
        };
        *place = Some(value);
    }
    let Some(collection) = collection else {
        let text = format!("BSON field '{stage}.coll' is missing but a required field");
        return Err(Error::new(40414, text));
    };
    Ok(Namespace::new(database.unwrap_or(&env.database), collection))
}

/// Rejects targets that no pipeline may write. The numbers are the codes for a special collection and a special
/// database.
pub(crate) fn check_target(stage: &str, collection: i32, database: i32, target: &Namespace) -> Result<()> {
    if target.collection.is_empty() || target.database.is_empty() || target.collection.contains('$') {
        let text = format!("Invalid {stage} target namespace, {target}");
        return Err(Error::new(code::INVALID_NAMESPACE, text));
    }
    if target.collection.starts_with("system.") {
        let text = format!("Cannot {stage} to special collection: {}", target.collection);
        return Err(Error::new(collection, text));
    }
    if ["admin", "config", "local"].contains(&target.database.as_str()) {
        let text = format!("Cannot {stage} to internal database: {}", target.database);
        return Err(Error::new(database, text));
    }
    Ok(())
}

/// Runs the stage over `input`.
pub(crate) fn open(
    target: Arc<Namespace>,
    input: Box<dyn DocSource>,
    execution: &Execution,
) -> Box<dyn DocSource> {
    Box::new(OutSource { target, execution: execution.clone(), input: Some(input) })
}

/// The running stage. It writes all documents at the first step and yields none.
struct OutSource {
    target: Arc<Namespace>,
    execution: Execution,
    /// The input, until it has been read.
    input: Option<Box<dyn DocSource>>,
}

impl DocSource for OutSource {
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool> {
        let Some(mut input) = self.input.take() else { return Ok(false) };
        let mut replacement = self.execution.collections.replace(&self.target, &self.execution)?;
        while input.advance(interrupt)? {
            replacement.insert(input.current())?;
        }
        replacement.commit()?;
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
