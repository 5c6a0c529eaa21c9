//! Updates by an aggregation pipeline: the stages that make one document of one.

use super::UpdateEnv;
use super::modifier::depth;
use super::tree::too_deep;
use crate::error::{Error, Result, code};
use crate::expr::{Context, EvalEnv, ParseEnv};
use crate::pipeline::Transform;
use bumpalo::Bump;
use diwan_value::{Array, Doc, DocBuf, DocBuilder, MAX_DEPTH, Value};

/// The stages of an update.
#[derive(Debug)]
pub(super) struct Pipeline(Vec<Transform>);

impl Pipeline {
    /// Parses the stages.
    pub fn parse(stages: Array<'_>, env: &UpdateEnv<'_>) -> Result<Pipeline> {
        let outermost;
        let scope = match env.filter.scope {
            Some(scope) => scope,
            None => {
                outermost = ParseEnv::new().with_collator(env.filter.context.collator.clone());
                &outermost
            }
        };
        stages.iter().map(|stage| parse_stage(stage, scope)).collect::<Result<_>>().map(Pipeline)
    }

    /// What the stages make of `doc`.
    pub fn run(&self, doc: Doc<'_>, context: &Context) -> Result<DocBuf> {
        let mut current = doc.to_owned();
        for stage in &self.0 {
            let arena = Bump::new();
            let doc = current.as_doc();
            let env = EvalEnv::new(&arena, doc, context);
            let mut out = DocBuilder::with_buffer(Vec::with_capacity(doc.as_bytes().len() + 64));
            stage.apply(&env, &mut out)?;
            current = out.finish();
        }
        if depth(Value::Document(current.as_doc())) > MAX_DEPTH {
            return Err(too_deep());
        }
        Ok(current)
    }

    /// Whether the stages may change the top-level field `name`.
    pub fn touches(&self, name: &str) -> bool {
        self.0.iter().any(|stage| match stage {
            Transform::AddFields(fields) => fields.names().any(|changed| changed == name),
            Transform::Project(projection) => projection.changes(name),
            Transform::Replace(_) => true,
        })
    }
}

/// Parses one stage.
fn parse_stage(stage: Value<'_>, scope: &ParseEnv<'_>) -> Result<Transform> {
    let Value::Document(stage) = stage else {
        return Err(Error::type_mismatch("Each element of the 'pipeline' array must be an object"));
    };
    let mut elements = stage.iter();
    let (Some(element), None) = (elements.next(), elements.next()) else {
        let text = "A pipeline stage specification object must contain exactly one field.";
        return Err(Error::new(40323, text));
    };
    let name = element.key_str();
    if NOT_ALLOWED.contains(&name) {
        let text = format!("{name} is not allowed to be used within an update");
        return Err(Error::new(code::INVALID_OPTIONS, text));
    }
    Transform::parse(name, element.value(), scope)
}

/// The stages that exist but make more, fewer or other documents than one of one.
const NOT_ALLOWED: &[&str] = &[
    "$bucket",
    "$bucketAuto",
    "$changeStream",
    "$collStats",
    "$count",
    "$currentOp",
    "$densify",
    "$documents",
    "$facet",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$group",
    "$indexStats",
    "$limit",
    "$listLocalSessions",
    "$listSessions",
    "$lookup",
    "$match",
    "$merge",
    "$out",
    "$planCacheStats",
    "$redact",
    "$sample",
    "$search",
    "$setWindowFields",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unionWith",
    "$unwind",
];
