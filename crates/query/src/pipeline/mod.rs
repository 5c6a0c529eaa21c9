//! Aggregation pipelines: parsed once into a list of stages, executed by pulling documents through them.
//!
//! [`Pipeline::parse`] parses the stages with the table in [`table`]. [`Pipeline::open`] stacks them as [`DocSource`]s
//! on a source of input documents, and combines a `$group` with the stage before it where possible ([`inline`]). Stages
//! reach other collections through [`Collections`]. The store's planner inspects the public list of leading stages,
//! runs those that it can run faster itself (an index for `$match` and `$sort`, a count), and opens the rest.
//!
//! Invariant: a parsed pipeline is immutable and cheap to clone; all state of an execution is in its sources.

mod env;
mod inline;
mod needed;
mod source;
mod stage;
mod table;

#[cfg(test)]
mod tests;

pub use env::{Collections, Execution, MergeDecision, MergeWrite, Namespace, PipelineEnv, Replacement};
pub use source::{DocList, DocSource};
pub use stage::{
    add_fields::AddFields,
    bucket_auto::BucketAuto,
    change_stream::{BeforeChange, ChangeStream, FullDocument, StreamStart},
    counting::count_document,
    documents::Documents,
    facet::Facet,
    group::Group,
    lookup::Lookup,
    merge::Merge,
    redact::Redact,
    sort::SortStage,
    stats::{Statistics, storage_scale},
    transform::Transform,
    union_with::UnionWith,
    unwind::Unwind,
};
pub use table::stage_names;

use crate::error::{Error, Result, code};
use crate::filter::Filter;
use diwan_value::{Array, DocBuf, Path, Value};
use stage::{change_stream, counting, match_filter, out, sample, transform};
use std::sync::Arc;

/// The maximum number of stages.
const MAX_STAGES: usize = 1000;

/// A parsed pipeline.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    /// The stages in order.
    pub stages: Vec<Stage>,
}

/// A stage and its source text, for `explain`.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The stage's name with its `$`.
    pub name: &'static str,
    /// The stage as a document: `{$limit: 5}`.
    pub spec: Arc<DocBuf>,
    /// The parsed stage.
    pub operation: Operation,
}

/// A parsed stage, ready to be opened.
#[derive(Clone, Debug)]
pub enum Operation {
    /// `$match`.
    Match(Arc<Filter>),
    /// `$project`, `$unset`, `$addFields`, `$set`, `$replaceRoot`, `$replaceWith`: each document is transformed into
    /// one document.
    Transform(Arc<Transform>),
    /// `$redact`.
    Redact(Arc<Redact>),
    /// `$group`.
    Group(Arc<Group>),
    /// `$sort`.
    Sort(Arc<SortStage>),
    /// `$skip`.
    Skip(u64),
    /// `$limit`.
    Limit(u64),
    /// `$count`, with the field's name.
    Count(Arc<str>),
    /// `$unwind`.
    Unwind(Arc<Unwind>),
    /// `$lookup`.
    Lookup(Arc<Lookup>),
    /// `$facet`.
    Facet(Arc<Facet>),
    /// `$bucketAuto`.
    BucketAuto(Arc<BucketAuto>),
    /// `$sample`, with the size.
    Sample(u64),
    /// `$unionWith`.
    UnionWith(Arc<UnionWith>),
    /// `$out`.
    Out(Arc<Namespace>),
    /// `$merge`.
    Merge(Arc<Merge>),
    /// `$collStats`, `$indexStats`, `$currentOp`.
    Statistics(Arc<Statistics>),
    /// `$documents`.
    Documents(Arc<Documents>),
    /// `$changeStream`.
    ChangeStream(Arc<ChangeStream>),
    /// `$changeStreamSplitLargeEvent`. The store splits what the pipeline yields.
    SplitLargeEvent,
}

impl Pipeline {
    /// Parses a list of stages.
    pub fn parse(stages: Array<'_>, env: &PipelineEnv) -> Result<Pipeline> {
        if stages.iter().any(|stage| stage.as_doc().is_none()) {
            return Err(Error::type_mismatch("Each element of the 'pipeline' array must be an object"));
        }
        if env.within.is_none() {
            // A stage unknown to MongoDB takes precedence over one that is not implemented here.
            table::check_names(stages)?;
        }
        let mut parsed = Vec::new();
        for stage in stages.iter().filter_map(Value::as_doc) {
            if parsed.len() >= MAX_STAGES {
                let text = format!("Pipeline length must be no longer than {MAX_STAGES} stages");
                return Err(Error::new(7749501, text));
            }
            table::parse(stage, env, &mut parsed)?;
        }
        table::check_positions(&parsed, env)?;
        change_stream::check_following(&parsed)?;
        if let Some(error) = env.failed.get().filter(|_| env.within.is_none()) {
            return Err(error.clone().in_context("Failed to optimize pipeline"));
        }
        let mut pipeline = Pipeline { stages: parsed };
        pipeline.optimize();
        Ok(pipeline)
    }

    /// The pipeline without its first `count` stages.
    pub fn after(&self, count: usize) -> Pipeline {
        Pipeline { stages: self.stages.get(count..).unwrap_or_default().to_vec() }
    }

    /// The paths of documents that the stages from `from` on depend on; `None` if they may depend on any path.
    pub fn needed_paths(&self, from: usize) -> Option<Vec<Path>> {
        needed::by_stages(self.stages.get(from..)?)
    }

    /// Whether the pipeline reads a collection. It does not if its first stage generates documents.
    pub fn reads_collection(&self) -> bool {
        self.stages.first().is_none_or(|stage| {
            !matches!(
                stage.operation,
                Operation::Documents(_) | Operation::Statistics(_) | Operation::ChangeStream(_)
            )
        })
    }

    /// The collection that the pipeline writes to.
    pub fn target(&self) -> Option<&Namespace> {
        match &self.stages.last()?.operation {
            Operation::Out(target) => Some(target),
            Operation::Merge(merge) => Some(merge.target()),
            _ => None,
        }
    }

    /// Runs the stages over `input`. A stage that generates documents ignores it.
    pub fn open(&self, input: Box<dyn DocSource>, execution: &Execution) -> Result<Box<dyn DocSource>> {
        let (mut input, mut stages) = (input, self.stages.as_slice());
        while let Some((stage, rest)) = stages.split_first() {
            stages = rest;
            if let (Operation::Transform(transform), Some(next)) = (&stage.operation, rest.first())
                && let Operation::Group(group) = &next.operation
                && let Some(group) = inline::group_over(transform, group)
            {
                stages = &rest[1..];
                input = Arc::new(group).open(input, execution);
            } else {
                input = stage.operation.open(input, execution)?;
            }
        }
        Ok(input)
    }

    /// Moves `$match` before `$sort`, and gives each sort the limit of the stages after it.
    fn optimize(&mut self) {
        let mut at = 1;
        while at < self.stages.len() {
            let swaps = matches!(
                (&self.stages[at - 1].operation, &self.stages[at].operation),
                (Operation::Sort(_), Operation::Match(_))
            );
            if swaps {
                self.stages.swap(at - 1, at);
                at = at.saturating_sub(1).max(1);
            } else {
                at += 1;
            }
        }
        for at in 0..self.stages.len() {
            let limit = limit_of(&self.stages[at + 1..]);
            if let Operation::Sort(sort) = &mut self.stages[at].operation {
                *sort = Arc::new(SortStage { sort: sort.sort.clone(), limit });
            }
        }
    }
}

/// How many documents `stages` read at most, as far as the first stages determine it.
fn limit_of(stages: &[Stage]) -> Option<u64> {
    let mut skipped: u64 = 0;
    for stage in stages {
        match &stage.operation {
            Operation::Skip(count) => skipped = skipped.checked_add(*count)?,
            Operation::Limit(limit) => return skipped.checked_add(*limit),
            Operation::Transform(_) | Operation::Lookup(_) => {}
            _ => return None,
        }
    }
    None
}

impl Operation {
    /// Runs the stage over `input`.
    pub fn open(&self, input: Box<dyn DocSource>, execution: &Execution) -> Result<Box<dyn DocSource>> {
        Ok(match self {
            Operation::Match(filter) => match_filter::open(filter.clone(), input, execution),
            Operation::Transform(transform) => transform::open(transform.clone(), input, execution),
            Operation::Redact(redact) => redact.open(input, execution),
            Operation::Group(group) => group.open(input, execution),
            Operation::Sort(sort) => sort.open(input, execution),
            Operation::Skip(count) => counting::skip(*count, input),
            Operation::Limit(count) => counting::limit(*count, input),
            Operation::Count(field) => counting::count(field.clone(), input),
            Operation::Unwind(unwind) => unwind.open(input),
            Operation::Lookup(lookup) => lookup.open(input, execution),
            Operation::Facet(facet) => facet.open(input, execution),
            Operation::BucketAuto(bucket) => bucket.open(input, execution),
            Operation::Sample(size) => sample::open(*size, input, execution),
            Operation::UnionWith(union) => union.open(input, execution),
            Operation::Out(target) => out::open(target.clone(), input, execution),
            Operation::Merge(merge) => merge.open(input, execution)?,
            Operation::Statistics(statistics) => statistics.open(execution)?,
            Operation::Documents(documents) => documents.open(execution)?,
            Operation::SplitLargeEvent => input,
            // The store opens the stream of a pipeline. It cannot be read in another place.
            Operation::ChangeStream(_) => {
                return Err(not_implemented("$changeStream within another pipeline"));
            }
        })
    }
}

/// The error for a stage that MongoDB has and Diwan does not.
fn not_implemented(name: &str) -> Error {
    Error::new(code::NOT_IMPLEMENTED, format!("The aggregation stage {name} is not implemented"))
}
