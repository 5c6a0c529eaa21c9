//! The table of stages: how each is parsed and where it is allowed.

use super::stage::{bucket, change_stream, counting, match_filter, out, sample};
use super::{
    BucketAuto, ChangeStream, Documents, Facet, Group, Lookup, Merge, Operation, PipelineEnv, Redact,
    SortStage, Stage, Statistics, Transform, UnionWith, Unwind, not_implemented,
};
use crate::error::{Error, Result, code};
use diwan_value::{Array, Doc, DocBuf, Element, Value};
use std::sync::Arc;

/// A row of the table.
struct StageRow {
    name: &'static str,
    form: StageForm,
    place: StagePlace,
    /// Whether it is allowed in a `$facet`.
    in_facet: bool,
}

/// How a stage is parsed.
enum StageForm {
    /// By this function, given the stage's name, its argument and the environment.
    Parse(fn(&'static str, Value<'_>, &PipelineEnv) -> Result<Operation>),
    /// By rewriting it to other stages.
    Rewrite(fn(Value<'_>, &PipelineEnv) -> Result<Vec<DocBuf>>),
    /// A stage that MongoDB has and Diwan does not.
    Missing,
    /// A stage of MongoDB's search service, which a server without that service also rejects.
    Search,
}

/// Where a stage is allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StagePlace {
    Anywhere,
    /// Only first: it generates documents.
    First,
    /// Only last: it writes the documents.
    Last,
}

/// A row for a stage that is allowed anywhere.
const fn stage(
    name: &'static str,
    parse: fn(&'static str, Value<'_>, &PipelineEnv) -> Result<Operation>,
) -> StageRow {
    StageRow { name, form: StageForm::Parse(parse), place: StagePlace::Anywhere, in_facet: true }
}

const fn first(
    name: &'static str,
    parse: fn(&'static str, Value<'_>, &PipelineEnv) -> Result<Operation>,
) -> StageRow {
    StageRow { name, form: StageForm::Parse(parse), place: StagePlace::First, in_facet: false }
}

const fn last(
    name: &'static str,
    parse: fn(&'static str, Value<'_>, &PipelineEnv) -> Result<Operation>,
) -> StageRow {
    StageRow { name, form: StageForm::Parse(parse), place: StagePlace::Last, in_facet: false }
}

const fn rewritten(
    name: &'static str,
    rewrite: fn(Value<'_>, &PipelineEnv) -> Result<Vec<DocBuf>>,
) -> StageRow {
    StageRow { name, form: StageForm::Rewrite(rewrite), place: StagePlace::Anywhere, in_facet: true }
}

const fn missing(name: &'static str) -> StageRow {
    StageRow { name, form: StageForm::Missing, place: StagePlace::Anywhere, in_facet: true }
}

const fn search(name: &'static str) -> StageRow {
    StageRow { name, form: StageForm::Search, place: StagePlace::Anywhere, in_facet: true }
}

/// All stages.
static STAGES: &[StageRow] = &[
    stage("$match", |_, spec, env| match_filter::parse(spec, env)),
    stage("$project", transform),
    stage("$unset", transform),
    stage("$addFields", transform),
    stage("$set", transform),
    stage("$replaceRoot", transform),
    stage("$replaceWith", transform),
    stage("$redact", |_, spec, env| Ok(Operation::Redact(Arc::new(Redact::parse(spec, &env.scope())?)))),
    stage("$group", |_, spec, env| Ok(Operation::Group(Arc::new(Group::parse(spec, &env.scope())?)))),
    stage("$sort", |_, spec, _| Ok(Operation::Sort(Arc::new(SortStage::parse(spec)?)))),
    stage("$skip", |_, spec, _| counting::parse_skip(spec)),
    stage("$limit", |_, spec, _| counting::parse_limit(spec)),
    stage("$count", |_, spec, _| counting::parse_count(spec)),
    stage("$unwind", |_, spec, _| Ok(Operation::Unwind(Arc::new(Unwind::parse(spec)?)))),
    stage("$lookup", |_, spec, env| Ok(Operation::Lookup(Arc::new(Lookup::parse(spec, env)?)))),
    StageRow {
        name: "$facet",
        form: StageForm::Parse(|_, spec, env| Ok(Operation::Facet(Arc::new(Facet::parse(spec, env)?)))),
        place: StagePlace::Anywhere,
        in_facet: false,
    },
    stage("$bucketAuto", |_, spec, env| {
        Ok(Operation::BucketAuto(Arc::new(BucketAuto::parse(spec, &env.scope())?)))
    }),
    stage("$sample", |_, spec, _| sample::parse(spec)),
    stage("$unionWith", |_, spec, env| Ok(Operation::UnionWith(Arc::new(UnionWith::parse(spec, env)?)))),
    rewritten("$bucket", bucket::rewrite_bucket),
    rewritten("$sortByCount", |spec, _| bucket::rewrite_sort_by_count(spec)),
    last("$out", |_, spec, env| Ok(Operation::Out(Arc::new(out::parse(spec, env)?)))),
    last("$merge", |_, spec, env| Ok(Operation::Merge(Arc::new(Merge::parse(spec, env)?)))),
    first("$collStats", statistics),
    first("$indexStats", statistics),
    first("$currentOp", statistics),
    first("$listLocalSessions", statistics),
    first("$listSessions", statistics),
    first("$changeStream", |_, spec, env| {
        Ok(Operation::ChangeStream(Arc::new(ChangeStream::parse(spec, env)?)))
    }),
    first("$documents", |_, spec, env| {
        Ok(Operation::Documents(Arc::new(Documents::parse(spec, &env.scope())?)))
    }),
    last("$changeStreamSplitLargeEvent", |_, spec, _| change_stream::parse_split(spec)),
    missing("$densify"),
    missing("$fill"),
    missing("$geoNear"),
    missing("$graphLookup"),
    missing("$listSampledQueries"),
    missing("$planCacheStats"),
    missing("$querySettings"),
    missing("$queryStats"),
    missing("$setWindowFields"),
    missing("$shardedDataDistribution"),
    search("$listSearchIndexes"),
    search("$search"),
    search("$searchMeta"),
    search("$vectorSearch"),
];

fn transform(name: &'static str, spec: Value<'_>, env: &PipelineEnv) -> Result<Operation> {
    Ok(Operation::Transform(Arc::new(Transform::parse(name, spec, &env.scope())?)))
}

fn statistics(name: &'static str, spec: Value<'_>, env: &PipelineEnv) -> Result<Operation> {
    Ok(Operation::Statistics(Arc::new(Statistics::parse(name, spec, env)?)))
}

/// The names of all stages that MongoDB has.
pub fn stage_names() -> impl Iterator<Item = &'static str> {
    STAGES.iter().map(|row| row.name)
}

/// The row for a stage, and the stage's only element.
fn row_of(stage: Doc<'_>) -> Result<(&'static StageRow, Element<'_>)> {
    let mut elements = stage.iter();
    let (Some(element), None) = (elements.next(), elements.next()) else {
        return Err(Error::new(
            40323,
            "A pipeline stage specification object must contain exactly one field.",
        ));
    };
    let name = element.key_str();
    let unknown = || Error::new(40324, format!("Unrecognized pipeline stage name: '{name}'"));
    let row = STAGES.iter().find(|row| row.name == name).ok_or_else(unknown)?;
    Ok((row, element))
}

/// Rejects stages that MongoDB does not know, including those in nested pipelines.
pub(super) fn check_names(stages: Array<'_>) -> Result<()> {
    for stage in stages.iter().filter_map(Value::as_doc) {
        let (row, element) = row_of(stage)?;
        let spec = element.value().as_doc().unwrap_or(Doc::EMPTY);
        let holds = |field: &Element<'_>| match row.name {
            "$facet" => true,
            "$lookup" | "$unionWith" => field.key == b"pipeline",
            _ => false,
        };
        spec.iter().filter(holds).filter_map(|field| field.value().as_array()).try_for_each(check_names)?;
    }
    Ok(())
}

/// Parses one stage and adds the result to `parsed`.
pub(super) fn parse(stage: Doc<'_>, env: &PipelineEnv, parsed: &mut Vec<Stage>) -> Result<()> {
    let (row, element) = row_of(stage)?;
    match row.form {
        StageForm::Parse(parse) => {
            let operation = parse(row.name, element.value(), env)?;
            parsed.push(Stage { name: row.name, spec: Arc::new(stage.to_owned()), operation });
        }
        StageForm::Rewrite(rewrite) => {
            for stage in rewrite(element.value(), env)? {
                parse_rewritten(&stage, env, parsed)?;
            }
        }
        StageForm::Missing => return Err(not_implemented(row.name)),
        StageForm::Search => {
            let text =
                "Using $search and $vectorSearch aggregation stages requires additional configuration.";
            return Err(Error::new(code::SEARCH_NOT_ENABLED, text));
        }
    }
    Ok(())
}

/// Whether there is a stage with this name, implemented or not.
pub(super) fn is_stage(name: &str) -> bool {
    STAGES.iter().any(|row| row.name == name)
}

/// Parses a stage that another one was rewritten to. A separate function, so that rewriting cannot recurse.
fn parse_rewritten(stage: &DocBuf, env: &PipelineEnv, parsed: &mut Vec<Stage>) -> Result<()> {
    let element = stage.as_doc().iter().next();
    let row = element.and_then(|element| STAGES.iter().find(|row| row.name.as_bytes() == element.key));
    if let (Some(element), Some(StageRow { name, form: StageForm::Parse(parse), .. })) = (element, row) {
        let operation = parse(name, element.value(), env)?;
        parsed.push(Stage { name, spec: Arc::new(stage.clone()), operation });
    }
    Ok(())
}

/// Checks that every stage is allowed at its position.
pub(super) fn check_positions(stages: &[Stage], env: &PipelineEnv) -> Result<()> {
    for (at, stage) in stages.iter().enumerate() {
        let Some(row) = STAGES.iter().find(|row| row.name == stage.name) else { continue };
        let name = row.name;
        match env.within {
            Some("$facet") if !row.in_facet => {
                return Err(Error::new(
                    40600,
                    format!("{name} is not allowed to be used within a $facet stage"),
                ));
            }
            Some("$lookup") if row.place == StagePlace::Last => {
                return Err(Error::new(
                    51047,
                    format!("{name} is not allowed within a $lookup's sub-pipeline"),
                ));
            }
            Some("$unionWith") if row.place == StagePlace::Last => {
                return Err(Error::new(
                    31441,
                    format!("{name} is not allowed within a $unionWith's sub-pipeline"),
                ));
            }
            _ => {}
        }
        match row.place {
            StagePlace::First if at > 0 => {
                let text = format!("{name} is only valid as the first stage in a pipeline.");
                return Err(Error::new(40602, text));
            }
            StagePlace::Last if at + 1 < stages.len() => {
                return Err(Error::new(40601, format!("{name} can only be the final stage in the pipeline")));
            }
            _ => {}
        }
    }
    check_collection(stages, env)
}

/// Checks that a pipeline whose first stage reads a collection has one, and that other pipelines have none.
fn check_collection(stages: &[Stage], env: &PipelineEnv) -> Result<()> {
    if env.within == Some("$facet") {
        return Ok(());
    }
    let invalid = |text: String| Err(Error::new(code::INVALID_NAMESPACE, text));
    let needs_none = |operation: &Operation| match operation {
        Operation::Documents(_) => true,
        Operation::Statistics(statistics) => statistics.is_of_server(),
        _ => false,
    };
    // A stream is of one collection, of a database or of all databases.
    if matches!(stages.first().map(|stage| &stage.operation), Some(Operation::ChangeStream(_))) {
        return Ok(());
    }
    match (stages.first(), &env.collection) {
        (None, None) => invalid("{aggregate: 1} is not valid for an empty pipeline.".to_owned()),
        (Some(stage), None) if !needs_none(&stage.operation) => {
            invalid(format!("{{aggregate: 1}} is not valid for '{}'; a collection is required.", stage.name))
        }
        (Some(stage), Some(_)) if needs_none(&stage.operation) => {
            invalid(format!("'{}' can only be run with {{aggregate: 1}}", stage.name))
        }
        _ => Ok(()),
    }
}
