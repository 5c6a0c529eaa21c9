//! Aggregation pipelines: parsed once into a list of stages, executed by pulling documents through them.
//!
//! [`Pipeline::parse`] reads the stages by the one table in [`table`]. [`Pipeline::open`] stacks them as [`DocSource`]s
//! on a source of input documents, a `$group` together with the stage that makes its fields where that can be
//! ([`inline`]); what a stage needs from outside comes through [`Collections`]. The planner of the
//! store looks at the public list of leading stages, does what it can do better itself (an index for `$match` and
//! `$sort`, a count), and opens the rest.
//!
//! Invariant: a parsed pipeline is immutable and cheap to clone; all state of an execution is in its sources.

mod add_fields;
mod bucket;
mod bucket_auto;
mod counting;
mod documents;
mod env;
mod facet;
mod granularity;
mod group;
mod inline;
mod lookup;
mod match_filter;
mod merge;
mod needed;
mod out;
mod sample;
mod set_path;
mod sort;
mod source;
mod stats;
mod table;
mod transform;
mod union_with;
mod unwind;

#[cfg(test)]
mod tests;

pub use add_fields::AddFields;
pub use bucket_auto::BucketAuto;
pub use counting::count_document;
pub use documents::Documents;
pub use env::{Collections, Execution, MergeDecision, MergeWrite, Namespace, PipelineEnv, Replacement};
pub use facet::Facet;
pub use group::Group;
pub use lookup::Lookup;
pub use merge::Merge;
pub use sort::SortStage;
pub use source::{DocList, DocSource};
pub use stats::{Statistics, storage_scale};
pub use transform::Transform;
pub use union_with::UnionWith;
pub use unwind::Unwind;

use crate::error::{Error, Result, code};
use crate::filter::Filter;
use diwan_value::{Array, DocBuf, Path, Value};
use std::sync::Arc;

/// The longest pipeline.
const MAX_STAGES: usize = 1000;

/// A parsed pipeline.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    /// The stages in their order.
    pub stages: Vec<Stage>,
}

/// A stage and the text that it was parsed from, for `explain`.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The stage's name with its `$`.
    pub name: &'static str,
    /// The stage as a document: `{$limit: 5}`.
    pub spec: Arc<DocBuf>,
    /// What it does.
    pub operation: Operation,
}

/// What a stage does.
#[derive(Clone, Debug)]
pub enum Operation {
    /// `$match`.
    Match(Arc<Filter>),
    /// `$project`, `$unset`, `$addFields`, `$set`, `$replaceRoot`, `$replaceWith`: one document for one document.
    Transform(Arc<Transform>),
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
}

impl Pipeline {
    /// Parses a list of stages.
    pub fn parse(stages: Array<'_>, env: &PipelineEnv) -> Result<Pipeline> {
        if stages.iter().any(|stage| stage.as_doc().is_none()) {
            return Err(Error::type_mismatch("Each element of the 'pipeline' array must be an object"));
        }
        if env.within.is_none() {
            // What no server knows is said before what this one does not have.
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

    /// The paths of documents that the stages from this one on depend on; `None` if that may be any.
    pub fn needed_paths(&self, from: usize) -> Option<Vec<Path>> {
        needed::by_stages(self.stages.get(from..)?)
    }

    /// Whether the pipeline reads a collection: its first stage does not make the documents itself.
    pub fn reads_collection(&self) -> bool {
        self.stages.first().is_none_or(|stage| {
            !matches!(stage.operation, Operation::Documents(_) | Operation::Statistics(_))
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

    /// Adds all collections that the stages read beside the pipeline's own.
    pub fn add_sources(&self, namespaces: &mut Vec<Namespace>) {
        for stage in &self.stages {
            match &stage.operation {
                Operation::Lookup(lookup) => lookup.add_sources(namespaces),
                Operation::UnionWith(union) => union.add_sources(namespaces),
                Operation::Facet(facet) => facet.add_sources(namespaces),
                _ => {}
            }
        }
    }

    /// Runs the stages over `input`, which a stage that makes its documents itself ignores.
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

    /// Filters before it sorts, and tells a sort how much of it will be read.
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

/// How many documents `stages` read at most, as far as their first ones tell.
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
        })
    }
}

/// A stage that MongoDB has and we do not.
fn not_implemented(name: &str) -> Error {
    Error::new(code::NOT_IMPLEMENTED, format!("The aggregation stage {name} is not implemented"))
}
