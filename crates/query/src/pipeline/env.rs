//! What a pipeline needs from outside: names and variables to be parsed, collections and memory to be executed.

use super::{DocSource, Pipeline};
use crate::error::{Error, Result, code};
use crate::expr::{Context, ParseEnv};
use crate::external_sort::MemoryBudget;
use diwan_value::{Doc, DocBuf, Path};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A collection's full name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    /// The database.
    pub database: String,
    /// The collection, dots included.
    pub collection: String,
}

impl Namespace {
    /// A namespace of those names.
    pub fn new(database: impl Into<String>, collection: impl Into<String>) -> Namespace {
        Namespace { database: database.into(), collection: collection.into() }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}

/// How deep pipelines may nest in pipelines.
const MAX_PIPELINE_DEPTH: usize = 20;

/// What the parser of a pipeline knows.
#[derive(Clone)]
pub struct PipelineEnv {
    /// The database in which `$lookup`, `$out`, … find collections that they name without one.
    pub database: String,
    /// The collection that the pipeline reads; `None` for `aggregate: 1`.
    pub collection: Option<String>,
    /// The names of [`Context::variables`], in their order: the operation's `let`.
    pub variables: Vec<String>,
    /// Variables' values, collation and clock.
    pub context: Arc<Context>,
    /// The stage that the pipeline is an argument of: `$lookup`, `$unionWith` or `$facet`.
    pub within: Option<&'static str>,
    /// How many pipelines this one is nested in.
    pub depth: usize,
    /// The first error of a constant expression of the pipeline, which is refused for it once it is parsed.
    pub(super) failed: Arc<OnceLock<Error>>,
}

impl PipelineEnv {
    /// The environment of a pipeline over a collection, without variables.
    pub fn new(namespace: &Namespace, context: Arc<Context>) -> PipelineEnv {
        PipelineEnv {
            database: namespace.database.clone(),
            collection: Some(namespace.collection.clone()),
            variables: Vec::new(),
            context,
            within: None,
            depth: 0,
            failed: Arc::default(),
        }
    }

    /// The same with the operation's variables, and for a pipeline that may read no collection.
    pub fn with(self, collection: Option<String>, variables: Vec<String>) -> PipelineEnv {
        PipelineEnv { collection, variables, ..self }
    }

    /// The scope in which the pipeline's expressions are parsed.
    pub fn scope(&self) -> ParseEnv<'static> {
        ParseEnv::with_let(self.variables.iter().map(String::as_str))
            .with_collator(self.context.collator.clone())
            .noting_failures(self.failed.clone())
    }

    /// The environment of a pipeline inside `stage` of this one, over `collection`.
    pub(crate) fn nested(&self, stage: &'static str, collection: Option<&str>) -> Result<PipelineEnv> {
        if self.depth + 1 >= MAX_PIPELINE_DEPTH {
            let text =
                format!("Maximum number of nested sub-pipelines exceeded. Limit is {MAX_PIPELINE_DEPTH}");
            return Err(Error::new(code::MAX_SUB_PIPELINE_DEPTH_EXCEEDED, text));
        }
        Ok(PipelineEnv {
            collection: collection.map(str::to_owned),
            within: Some(stage),
            depth: self.depth + 1,
            ..self.clone()
        })
    }

    /// A collection of this database.
    pub(crate) fn namespace(&self, collection: &str) -> Namespace {
        Namespace::new(self.database.clone(), collection)
    }
}

/// What the execution of a pipeline needs. Cheap to clone.
#[derive(Clone)]
pub struct Execution {
    /// The collections.
    pub collections: Arc<dyn Collections>,
    /// Variables' values, collation, clock and interrupt.
    pub context: Arc<Context>,
    /// How much memory a stage may use.
    pub budget: MemoryBudget,
    /// The namespace that the pipeline reads, for `$collStats` and `$indexStats`.
    pub namespace: Namespace,
    /// Whether `$out` and `$merge` write documents that the target's validator refuses.
    pub bypass_document_validation: bool,
}

/// What a `$merge` decided for one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeWrite {
    /// Leave the target as it is.
    Keep,
    /// Replace what was found, or insert if nothing was.
    Put(DocBuf),
    /// Refuse: what was found holds the key, and nothing may.
    Duplicate,
}

/// What `$merge` asks, given the document that was found in the target.
pub type MergeDecision<'a> = dyn FnMut(Option<Doc<'_>>) -> Result<MergeWrite> + 'a;

/// The collections as pipelines see them. The store implements it.
pub trait Collections: Send + Sync {
    /// Opens `pipeline` over a collection or view: plans what its leading stages allow, runs the others over it. A
    /// collection that does not exist is empty.
    fn open(
        &self,
        namespace: &Namespace,
        pipeline: &Pipeline,
        execution: &Execution,
    ) -> Result<Box<dyn DocSource>>;

    /// Whether [`Collections::open`] finds documents by an equality on `path` through an index, under the
    /// execution's collation.
    fn finds_by(&self, namespace: &Namespace, path: &Path, execution: &Execution) -> bool;

    /// The documents of `$collStats`; `spec` is the stage's checked argument.
    fn collection_stats(&self, namespace: &Namespace, spec: Doc<'_>) -> Result<Vec<DocBuf>>;

    /// The documents of `$indexStats`.
    fn index_stats(&self, namespace: &Namespace) -> Result<Vec<DocBuf>>;

    /// The documents of `$currentOp`; `spec` is the stage's checked argument.
    fn current_operations(&self, spec: Doc<'_>) -> Result<Vec<DocBuf>>;

    /// The documents of `$listSessions`: the server's sessions.
    fn sessions(&self) -> Result<Vec<DocBuf>>;

    /// Begins to replace the contents of a collection (`$out`): visible at once when committed, nothing of it before.
    fn replace(&self, namespace: &Namespace, execution: &Execution) -> Result<Box<dyn Replacement>>;

    /// Checks that a `$merge` can find documents by `on`: `_id` alone or the fields of a unique index; in any order.
    fn check_merge_key(&self, namespace: &Namespace, on: &[Path]) -> Result<()>;

    /// Finds the document of which the `_id`, or the fields of the key checked before, equal those of `key` (none, if
    /// `key` is `None`), asks `decide` and writes what it says, as one step: when the document changes in between,
    /// asks again. A document without `_id` is given one.
    fn merge(
        &self,
        namespace: &Namespace,
        key: Option<Doc<'_>>,
        decide: &mut MergeDecision<'_>,
        execution: &Execution,
    ) -> Result<()>;
}

/// A collection's new contents. Dropping it discards them.
pub trait Replacement: Send {
    /// Adds a document; one without `_id` is given one.
    fn insert(&mut self, doc: Doc<'_>) -> Result<()>;

    /// Puts the new contents in place of the old, options and indexes kept.
    fn commit(self: Box<Self>) -> Result<()>;
}
