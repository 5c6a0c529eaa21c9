//! `aggregate`: a pipeline over a collection, over a view, or without a source.

use super::collections::StoreCollections;
use super::scope::Scope;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::plan::Hint;
use crate::store::{Entry, Store};
use diwan_query::pipeline as query;
use diwan_query::pipeline::{DocList, DocSource, Execution, Pipeline, PipelineEnv};
use diwan_value::Array;
use std::sync::Arc;

/// An aggregation.
#[derive(Clone)]
pub struct Aggregate<'a> {
    /// The stages.
    pub pipeline: Array<'a>,
    /// The access for the leading stages.
    pub hint: Hint,
    /// Collation, variables, interrupt.
    pub scope: Scope<'a>,
    /// Whether `$out` and `$merge` skip the target's validator.
    pub bypass_validation: bool,
}

impl Store {
    /// Opens a pipeline. `namespace` is `None` for one that reads no collection.
    pub fn aggregate(
        self: &Arc<Self>,
        namespace: Option<&Namespace>,
        database: &str,
        request: &Aggregate<'_>,
    ) -> Result<Box<dyn DocSource>> {
        let (pipeline, execution) = self.prepare_pipeline(namespace, database, request)?;
        if !pipeline.reads_collection() {
            return Ok(pipeline.open(Box::new(DocList::empty()), &execution)?);
        }
        let collections = StoreCollections::new(self.clone(), request.scope.designs.clone());
        collections.open_planned(&execution.namespace, &pipeline, &execution, &request.hint)
    }

    /// Parses a pipeline, and creates the environment that executes it.
    pub(crate) fn prepare_pipeline(
        self: &Arc<Self>,
        namespace: Option<&Namespace>,
        database: &str,
        request: &Aggregate<'_>,
    ) -> Result<(Pipeline, Execution)> {
        let collator = match namespace.and_then(|namespace| self.entry(namespace)) {
            Some(Entry::Collection(collection)) => collection.schema().options.collator.clone(),
            Some(Entry::View(view)) => view.options.collator.clone(),
            None => None,
        };
        let ready = request.scope.ready(collator.as_ref())?;
        let name = query::Namespace::new(
            database,
            namespace.map_or_else(|| "$cmd.aggregate".to_owned(), |namespace| namespace.collection.clone()),
        );
        let collection = namespace.map(|namespace| namespace.collection.clone());
        let env = PipelineEnv::new(&name, ready.context.clone()).with(collection, ready.names.clone());
        let pipeline = Pipeline::parse(request.pipeline, &env)?;
        let execution = Execution {
            collections: Arc::new(StoreCollections::new(self.clone(), request.scope.designs.clone())),
            context: ready.context.clone(),
            budget: ready.budget.clone(),
            namespace: name,
            bypass_document_validation: request.bypass_validation,
        };
        Ok((pipeline, execution))
    }
}
