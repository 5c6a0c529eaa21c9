//! What aggregation pipelines need: a table with a row for each stage.

use super::requests::is_set;
use super::{Check, own};
use crate::error::Result;
use crate::request::check_unique;
use diwan_access::{Action, Resource};
use diwan_store::Namespace;
use diwan_value::{Array, Doc, Value};

/// What a stage needs.
#[derive(Clone, Copy)]
enum StageNeeds {
    /// Nothing beside what the pipeline's input needs.
    Nothing,
    /// It generates the input itself, and needs this action on the pipeline's collection instead of `find`.
    Input(&'static [Action]),
    /// It generates the input itself and needs nothing: it shows what belongs to the caller, or a constant.
    OwnInput,
    /// `find` on the collection in `from`, and what its inner pipeline needs.
    From,
    /// The same, for a stage that may be just the collection's name.
    Coll,
    /// What its inner pipelines need.
    Facet,
    /// To replace a collection.
    Out,
    /// To change a collection.
    Merge,
    /// It shows the caller's operations; those of all users need `inprog`.
    CurrentOp,
    /// It shows the caller's sessions; those of other users need `listSessions`.
    Sessions,
}

/// All stages, sorted by name.
const STAGES: &[(&str, StageNeeds)] = &[
    ("$addFields", StageNeeds::Nothing),
    ("$bucket", StageNeeds::Nothing),
    ("$bucketAuto", StageNeeds::Nothing),
    ("$changeStream", StageNeeds::Input(&[Action::Find, Action::ChangeStream])),
    ("$changeStreamSplitLargeEvent", StageNeeds::Nothing),
    ("$collStats", StageNeeds::Input(&[Action::CollStats])),
    ("$count", StageNeeds::Nothing),
    ("$currentOp", StageNeeds::CurrentOp),
    ("$densify", StageNeeds::Nothing),
    ("$documents", StageNeeds::OwnInput),
    ("$facet", StageNeeds::Facet),
    ("$fill", StageNeeds::Nothing),
    ("$geoNear", StageNeeds::Nothing),
    ("$graphLookup", StageNeeds::From),
    ("$group", StageNeeds::Nothing),
    ("$indexStats", StageNeeds::Input(&[Action::IndexStats])),
    ("$limit", StageNeeds::Nothing),
    ("$listClusterCatalog", StageNeeds::Input(&[Action::ListCollections])),
    ("$listLocalSessions", StageNeeds::Sessions),
    ("$listSampledQueries", StageNeeds::Input(&[Action::Find])),
    ("$listSearchIndexes", StageNeeds::Input(&[Action::ListSearchIndexes])),
    ("$listSessions", StageNeeds::Sessions),
    ("$lookup", StageNeeds::From),
    ("$match", StageNeeds::Nothing),
    ("$merge", StageNeeds::Merge),
    ("$out", StageNeeds::Out),
    ("$planCacheStats", StageNeeds::Input(&[Action::PlanCacheRead])),
    ("$project", StageNeeds::Nothing),
    ("$querySettings", StageNeeds::OwnInput),
    ("$queryStats", StageNeeds::OwnInput),
    ("$rankFusion", StageNeeds::Nothing),
    ("$redact", StageNeeds::Nothing),
    ("$replaceRoot", StageNeeds::Nothing),
    ("$replaceWith", StageNeeds::Nothing),
    ("$sample", StageNeeds::Nothing),
    ("$scoreFusion", StageNeeds::Nothing),
    ("$search", StageNeeds::Nothing),
    ("$searchMeta", StageNeeds::Nothing),
    ("$set", StageNeeds::Nothing),
    ("$setWindowFields", StageNeeds::Nothing),
    ("$shardedDataDistribution", StageNeeds::OwnInput),
    ("$skip", StageNeeds::Nothing),
    ("$sort", StageNeeds::Nothing),
    ("$sortByCount", StageNeeds::Nothing),
    ("$unionWith", StageNeeds::Coll),
    ("$unset", StageNeeds::Nothing),
    ("$unwind", StageNeeds::Nothing),
    ("$vectorSearch", StageNeeds::Nothing),
];

/// Nested deeper than this, a pipeline is refused. BSON does not nest as deep.
const MAX_DEPTH: usize = 100;

/// Checks a pipeline over a collection, or over none (`aggregate: 1`).
pub(super) fn check(
    check: &Check<'_>,
    stages: Array<'_>,
    input: Option<&Namespace>,
    bypass: bool,
) -> Result<()> {
    Walk { check, database: check.request.arguments.database, bypass }.pipeline(stages, input, 0)
}

struct Walk<'a> {
    check: &'a Check<'a>,
    database: &'a str,
    /// Whether the pipeline writes without the validator.
    bypass: bool,
}

impl Walk<'_> {
    fn pipeline(&self, stages: Array<'_>, input: Option<&Namespace>, depth: usize) -> Result<()> {
        let first = stages.iter().next().and_then(Value::as_doc).and_then(needs);
        match (first, input) {
            (Some(StageNeeds::Input(actions)), Some(input)) => self.check.require_all(actions, input)?,
            (Some(StageNeeds::Input(actions)), None) => {
                let database = Resource::Database(self.database);
                actions.iter().try_for_each(|action| self.check.require(*action, database))?;
            }
            (Some(StageNeeds::OwnInput | StageNeeds::CurrentOp | StageNeeds::Sessions), _) => {}
            (_, Some(input)) => self.check.require(Action::Find, Resource::collection(input))?,
            // A pipeline without a collection whose first stage generates nothing is refused when it is parsed.
            (_, None) => {}
        }
        self.stages(stages, depth)
    }

    fn stages(&self, stages: Array<'_>, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.check.not_authorized());
        }
        for (at, stage) in stages.iter().filter_map(Value::as_doc).enumerate() {
            if let (Some(needs), Some(element)) = (needs(stage), stage.iter().next()) {
                let is_outermost = at == 0 && depth == 0;
                self.stage(needs, element.key_str(), element.value(), is_outermost, depth)?;
            }
        }
        Ok(())
    }

    fn stage(
        &self,
        needs: StageNeeds,
        name: &str,
        argument: Value<'_>,
        is_outermost: bool,
        depth: usize,
    ) -> Result<()> {
        let spec = argument.as_doc().unwrap_or(Doc::EMPTY);
        // Of two fields of one name this check and the stage could read different ones.
        check_unique(name, spec)?;
        match needs {
            StageNeeds::Nothing | StageNeeds::Input(_) | StageNeeds::OwnInput => Ok(()),
            StageNeeds::From => self.source(spec.get("from"), spec, depth),
            StageNeeds::Coll => match argument {
                Value::String(_) => self.source(Some(argument), Doc::EMPTY, depth),
                _ => self.source(spec.get("coll"), spec, depth),
            },
            StageNeeds::Facet => spec
                .iter()
                .filter_map(|facet| facet.value().as_array())
                .try_for_each(|stages| self.stages(stages, depth + 1)),
            StageNeeds::Out => match self.target(argument)? {
                Some(target) => self.write(&target, &[Action::Insert, Action::Remove]),
                None => Ok(()),
            },
            StageNeeds::Merge => self.merge(argument, spec, depth),
            // Elsewhere nothing leaves out what belongs to others.
            StageNeeds::CurrentOp if is_outermost && !is_set(spec, "allUsers") => Ok(()),
            StageNeeds::CurrentOp => self.check.require(Action::Inprog, Resource::Cluster),
            StageNeeds::Sessions if is_outermost && own::lists_own_sessions(spec, self.check.caller) => {
                Ok(())
            }
            StageNeeds::Sessions => self.check.require(Action::ListSessions, Resource::Cluster),
        }
    }

    /// A stage that reads a collection, through an inner pipeline or not.
    fn source(&self, from: Option<Value<'_>>, spec: Doc<'_>, depth: usize) -> Result<()> {
        let stages = spec.get_array("pipeline").unwrap_or(Array::EMPTY);
        match from.map(|from| self.target(from)).transpose()?.flatten() {
            Some(source) => self.pipeline(stages, Some(&source), depth + 1),
            None => self.pipeline(stages, None, depth + 1),
        }
    }

    /// The collection that a stage names: by its name, or as `{db: …, coll: …}`.
    fn target(&self, value: Value<'_>) -> Result<Option<Namespace>> {
        let (database, collection) = match value {
            Value::String(collection) => (self.database, Some(collection)),
            Value::Document(doc) => {
                check_unique("namespace", doc)?;
                (doc.get_str("db").unwrap_or(self.database), doc.get_str("coll"))
            }
            _ => (self.database, None),
        };
        Ok(collection.map(|collection| Namespace::new(database, collection)).transpose()?)
    }

    fn merge(&self, argument: Value<'_>, spec: Doc<'_>, depth: usize) -> Result<()> {
        let into = if argument.as_str().is_some() { Some(argument) } else { spec.get("into") };
        let Some(target) = into.map(|into| self.target(into)).transpose()?.flatten() else { return Ok(()) };
        let mut actions = Vec::new();
        if !matches!(spec.get_str("whenNotMatched"), Some("discard" | "fail")) {
            actions.push(Action::Insert);
        }
        if !matches!(spec.get_str("whenMatched"), Some("keepExisting" | "fail")) {
            actions.push(Action::Update);
        }
        if actions.is_empty() {
            actions.push(Action::Update);
        }
        self.write(&target, &actions)?;
        match spec.get_array("whenMatched") {
            Some(stages) => self.stages(stages, depth + 1),
            None => Ok(()),
        }
    }

    fn write(&self, target: &Namespace, actions: &[Action]) -> Result<()> {
        self.check.require_all(actions, target)?;
        if self.bypass {
            self.check.require(Action::BypassDocumentValidation, Resource::collection(target))?;
        }
        Ok(())
    }
}

/// What a stage needs. `None` if there is no such stage: the pipeline is refused when it is parsed.
fn needs(stage: Doc<'_>) -> Option<StageNeeds> {
    let name = stage.iter().next()?.key_str();
    STAGES.binary_search_by_key(&name, |(name, _)| *name).ok().map(|at| STAGES[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_a_row() {
        assert!(STAGES.is_sorted_by(|a, b| a.0 < b.0));
        let missing: Vec<&str> = diwan_query::pipeline::stage_names()
            .filter(|name| STAGES.binary_search_by_key(name, |(name, _)| *name).is_err())
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
