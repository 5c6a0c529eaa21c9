//! The environment of pipelines: names and variables for the parser, collections and memory for the execution.

use super::{DocSource, Pipeline};
use crate::error::{Error, Result, code};
use crate::expr::{Context, ParseEnv};
use crate::memory::MemoryBudget;
use diwan_value::{Doc, DocBuf, Path};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A collection's full name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    /// The database.
    pub database: String,
    /// The collection's name, which may contain dots.
    pub collection: String,
}

impl Namespace {
    /// Makes a namespace from its two names.
    pub fn new(database: impl Into<String>, collection: impl Into<String>) -> Namespace {
        Namespace { database: database.into(), collection: collection.into() }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}

/// How deep pipelines may nest.
const MAX_PIPELINE_DEPTH: usize = 20;

/// The environment of the pipeline parser.
#[derive(Clone)]
pub struct PipelineEnv {
    /// The database of collections that `$lookup`, `$out` and others name without a database.
    pub database: String,
    /// The collection that the pipeline reads; `None` for `aggregate: 1`.
    pub collection: Option<String>,
    /// The names of [`Context::variables`] in order: the operation's `let`.
    pub variables: Vec<String>,
    /// The values of variables, the collation and the clock.
    pub context: Arc<Context>,
    /// The stage that contains this pipeline as an argument: `$lookup`, `$unionWith` or `$facet`.
    pub within: Option<&'static str>,
    /// How many pipelines enclose this one.
    pub depth: usize,
    /// The first error of a constant expression. `Pipeline::parse` returns it after parsing all stages.
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

    /// The same environment with the operation's variables, for a pipeline that may have no collection.
    pub fn with(self, collection: Option<String>, variables: Vec<String>) -> PipelineEnv {
        PipelineEnv { collection, variables, ..self }
    }

    /// The scope for parsing the pipeline's expressions.
    pub fn scope(&self) -> ParseEnv<'static> {
        ParseEnv::with_let(self.variables.iter().map(String::as_str))
            .with_collator(self.context.collator.clone())
            .noting_failures(self.failed.clone())
    }

    /// The environment of a nested pipeline in `stage`, over `collection`.
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

    /// The namespace of a collection in this database.
    pub(crate) fn namespace(&self, collection: &str) -> Namespace {
        Namespace::new(self.database.clone(), collection)
    }
}

/// The environment of a pipeline's execution. Cheap to clone.
#[derive(Clone)]
pub struct Execution {
    /// The collections.
    pub collections: Arc<dyn Collections>,
    /// The values of variables, the collation, the clock and the interrupt.
    pub context: Arc<Context>,
    /// How much memory a stage may use.
    pub budget: MemoryBudget,
    /// The namespace that the pipeline reads, for `$collStats` and `$indexStats`.
    pub namespace: Namespace,
    /// Whether `$out` and `$merge` may write documents that fail the target's validator.
    pub bypass_document_validation: bool,
}

/// The decision of a `$merge` for one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeWrite {
    /// Do not write.
    Keep,
    /// Replace the found document, or insert if there was none.
    Put(DocBuf),
    /// Fail with a duplicate key, because a document was found and none may exist.
    Duplicate,
}

/// Decides what a `$merge` writes, given the document found in the target.
pub type MergeDecision<'a> = dyn FnMut(Option<Doc<'_>>) -> Result<MergeWrite> + 'a;

/// The collections as pipelines access them. The store implements this trait.
pub trait Collections: Send + Sync {
    /// Opens `pipeline` over a collection or view: plans the leading stages as far as possible and runs the others over
    /// the result. A collection that does not exist is empty.
    fn open(
        &self,
        namespace: &Namespace,
        pipeline: &Pipeline,
        execution: &Execution,
    ) -> Result<Box<dyn DocSource>>;

    /// Whether [`Collections::open`] would use an index for an equality on `path`, under the execution's collation.
    fn finds_by(&self, namespace: &Namespace, path: &Path, execution: &Execution) -> bool;

    /// The documents of `$collStats`; `spec` is the stage's checked argument.
    fn collection_stats(&self, namespace: &Namespace, spec: Doc<'_>) -> Result<Vec<DocBuf>>;

    /// The documents of `$indexStats`.
    fn index_stats(&self, namespace: &Namespace) -> Result<Vec<DocBuf>>;

    /// The documents of `$currentOp`; `spec` is the stage's checked argument.
    fn current_operations(&self, spec: Doc<'_>) -> Result<Vec<DocBuf>>;

    /// The documents of `$listSessions`: the server's sessions.
    fn sessions(&self) -> Result<Vec<DocBuf>>;

    /// Begins to replace the contents of a collection (`$out`). The new contents become visible all at once on commit.
    fn replace(&self, namespace: &Namespace, execution: &Execution) -> Result<Box<dyn Replacement>>;

    /// Checks that a `$merge` can find documents by `on`: by `_id` alone or by the fields of a unique index, in any
    /// order.
    fn check_merge_key(&self, namespace: &Namespace, on: &[Path]) -> Result<()>;

    /// Finds the document whose `_id`, or whose fields of the merge key, equal those of `key` (none if `key` is
    /// `None`), calls `decide` and performs its decision atomically: if the document changes in between, `decide` is
    /// called again. A document without `_id` gets one. `replaces` says whether the decision replaces a found document as a
    /// whole, which change streams show.
    fn merge(
        &self,
        namespace: &Namespace,
        key: Option<Doc<'_>>,
        decide: &mut MergeDecision<'_>,
        replaces: bool,
        execution: &Execution,
    ) -> Result<()>;
}

/// The new contents of a collection. Dropping it discards them.
pub trait Replacement: Send {
    /// Adds a document. A document without `_id` gets one.
    fn insert(&mut self, doc: Doc<'_>) -> Result<()>;

    /// Replaces the old contents. Options and indexes stay.
    fn commit(self: Box<Self>) -> Result<()>;
}
