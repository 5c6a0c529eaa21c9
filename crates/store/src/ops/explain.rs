//! `explain`: the plan of an operation, and optionally the statistics of its execution.

use super::aggregate::Aggregate;
use super::collections::{Leading, StoreCollections};
use super::find::Find;
use crate::error::Result;
use crate::exec::{Scan, ScanStats};
use crate::namespace::Namespace;
use crate::plan::{Access, Plan, Shape, explain_plan};
use crate::store::{Entry, Store};
use diwan_query::Interrupt;
use diwan_query::pipeline::{DocSource, Pipeline};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, DocBuilder, Value, doc};
use std::sync::Arc;
use std::time::Instant;

/// The verbosity of `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// The plan.
    QueryPlanner,
    /// The plan, and how much its execution reads.
    ExecutionStats,
    /// The same, with an empty list for the rejected plans.
    AllPlansExecution,
}

impl Store {
    /// Explains a find, or the find that another command begins with. `root` is that command's stage, which wraps the
    /// plan.
    pub fn explain_find(
        self: &Arc<Self>,
        namespace: &Namespace,
        find: &Find<'_>,
        root: Option<&str>,
        verbosity: Verbosity,
    ) -> Result<DocBuf> {
        let collection = match self.entry(namespace) {
            Some(Entry::Collection(collection)) => collection,
            Some(Entry::View(_)) => {
                find.check_for_view()?;
                let stages = find.to_pipeline();
                let aggregate = Aggregate {
                    pipeline: Array::trusted(&stages),
                    hint: find.hint.clone(),
                    scope: find.scope.clone(),
                    bypass_validation: false,
                };
                return self.explain_aggregate(Some(namespace), &namespace.database, &aggregate, verbosity);
            }
            None => {
                find.scope.ready(None)?.filter(find.filter)?;
                return Ok(document(
                    namespace,
                    find.filter,
                    doc! { "stage": "EOF" },
                    Vec::new(),
                    None,
                    verbosity,
                ));
            }
        };
        let prepared = find.prepare(&collection)?;
        let shape = Shape {
            sort: find.sort.filter(|_| prepared.sort.is_some() && !prepared.plan.sorted),
            skip: find.skip,
            limit: find.limit,
            projection: find.projection.filter(|projection| !projection.is_empty()),
            return_key: find.return_key,
        };
        let interrupt = &prepared.ready.interrupt;
        let run = match verbosity {
            Verbosity::QueryPlanner => None,
            _ => {
                // A plan that sorts must read all matches, whatever the limit.
                let most = find.limit.filter(|_| prepared.plan.sorted).map(|limit| limit + find.skip);
                Some(run_scan(Scan::new(prepared.view, &prepared.plan), most, interrupt)?)
            }
        };
        let wrap = |stage: DocBuf| match root {
            None => stage,
            Some(root) => doc! { "stage": root, "inputStage": stage },
        };
        let winning = wrap(explain_plan(&prepared.plan, find.filter, &shape, None));
        let stats = run.map(|(stats, millis)| {
            let stages = wrap(explain_plan(&prepared.plan, find.filter, &shape, Some(stats)));
            (stats, shape.returned(stats.returned), millis, stages)
        });
        let rejected = rejected_plans(&prepared.plan, find.filter);
        Ok(document(namespace, find.filter, winning, rejected, stats, verbosity))
    }

    /// Explains an aggregation: its leading stages as a plan, the other stages as they were given.
    pub fn explain_aggregate(
        self: &Arc<Self>,
        namespace: Option<&Namespace>,
        database: &str,
        request: &Aggregate<'_>,
        verbosity: Verbosity,
    ) -> Result<DocBuf> {
        let (pipeline, execution) = self.prepare_pipeline(namespace, database, request)?;
        let mut stages = ArrayBuilder::new();
        let name = Namespace {
            database: execution.namespace.database.clone(),
            collection: execution.namespace.collection.clone(),
        };
        let mut rest = pipeline.clone();
        if pipeline.reads_collection() {
            let collections = StoreCollections::new(self.clone(), None);
            let (name, pipeline) = collections.through_views(name, pipeline, &execution)?;
            rest = pipeline.clone();
            let mut planner =
                document(&name, Doc::EMPTY, doc! { "stage": "EOF" }, Vec::new(), None, verbosity);
            if let Some(Entry::Collection(collection)) = self.entry(&name) {
                let leading = Leading::of(&pipeline);
                let (plan, view) = leading.plan(&collection, &pipeline, &execution, &request.hint)?;
                let filter = match leading.matches {
                    0 => DocBuf::new(),
                    _ => pipeline.stages[0].spec.as_doc().get_doc("$match").unwrap_or(Doc::EMPTY).to_owned(),
                };
                let (shape, done) = absorbed(&pipeline, &leading, &plan);
                let stats = match verbosity {
                    Verbosity::QueryPlanner => None,
                    _ => {
                        let most =
                            shape.limit.filter(|_| shape.sort.is_none()).map(|limit| limit + shape.skip);
                        let (stats, millis) =
                            run_scan(Scan::new(view, &plan), most, &execution.context.interrupt)?;
                        let stages = explain_plan(&plan, filter.as_doc(), &shape, Some(stats));
                        Some((stats, shape.returned(stats.returned), millis, stages))
                    }
                };
                let winning = explain_plan(&plan, filter.as_doc(), &shape, None);
                let rejected = rejected_plans(&plan, filter.as_doc());
                planner = document(&name, filter.as_doc(), winning, rejected, stats, verbosity);
                rest = pipeline.after(done);
            }
            // MongoDB shows a pipeline without further stages like a find.
            if rest.stages.is_empty() {
                return Ok(planner);
            }
            stages.push(doc! { "$cursor": planner });
        }
        for stage in &rest.stages {
            stages.push(stage.spec.as_doc());
        }
        Ok(doc! { "explainVersion": "1", "stages": stages })
    }
}

/// The stages after the leading `$match` stages that a find could execute: `$sort`, `$skip`, `$limit`. Returns them
/// with the number of stages up to there.
fn absorbed<'a>(pipeline: &'a Pipeline, leading: &Leading, plan: &Plan) -> (Shape<'a>, usize) {
    let mut done = leading.matches;
    let mut next = |name: &str| {
        let stage = pipeline.stages.get(done)?.spec.as_doc().get(name)?;
        done += 1;
        Some(stage)
    };
    let sort = leading.sort.is_some().then(|| next("$sort")).flatten();
    let number = |value: Value<'_>| value.as_i64_exact().map(i64::unsigned_abs);
    let shape = Shape {
        sort: sort.and_then(Value::as_doc).filter(|_| !plan.sorted),
        skip: next("$skip").and_then(number).unwrap_or(0),
        limit: next("$limit").and_then(number),
        ..Shape::default()
    };
    (shape, done)
}

/// Executes a scan to its end, or to `most` matches. Returns its statistics and the milliseconds that it took.
fn run_scan(mut scan: Scan, most: Option<u64>, interrupt: &Interrupt) -> Result<(ScanStats, u64)> {
    let begun = Instant::now();
    while most.is_none_or(|most| scan.stats().returned < most) && scan.step(interrupt)? {}
    scan.suspend();
    Ok((scan.stats(), begun.elapsed().as_millis() as u64))
}

fn rejected_plans(plan: &Plan, filter: Doc<'_>) -> Vec<DocBuf> {
    let show = |access: &Access| {
        let rejected = Plan {
            access: access.clone(),
            filter: plan.filter.clone(),
            sorted: plan.sorted,
            rejected: Vec::new(),
        };
        explain_plan(&rejected, filter, &Shape::default(), None)
    };
    plan.rejected.iter().map(show).collect()
}

/// The answer of `explain`, in MongoDB's form.
fn document(
    namespace: &Namespace,
    filter: Doc<'_>,
    winning: DocBuf,
    rejected: Vec<DocBuf>,
    stats: Option<(ScanStats, u64, u64, DocBuf)>,
    verbosity: Verbosity,
) -> DocBuf {
    let mut out = DocBuilder::new();
    out.append("explainVersion", "1");
    out.append(
        "queryPlanner",
        doc! {
            "namespace": namespace.to_string(),
            "parsedQuery": filter,
            "indexFilterSet": false,
            "optimizationTimeMillis": 0,
            "maxIndexedOrSolutionsReached": false,
            "maxIndexedAndSolutionsReached": false,
            "maxScansToExplodeReached": false,
            "prunedSimilarIndexes": false,
            "winningPlan": winning,
            "rejectedPlans": rejected
        },
    );
    if let Some((stats, returned, millis, stages)) = stats {
        out.begin_document("executionStats");
        out.append("executionSuccess", true)
            .append("nReturned", Value::integer(returned as i64))
            .append("executionTimeMillis", Value::integer(millis as i64))
            .append("totalKeysExamined", Value::integer(stats.keys_examined as i64))
            .append("totalDocsExamined", Value::integer(stats.docs_examined as i64))
            .append("executionStages", stages);
        if verbosity == Verbosity::AllPlansExecution {
            out.append("allPlansExecution", Vec::<DocBuf>::new());
        }
        out.end();
    }
    out.finish()
}
