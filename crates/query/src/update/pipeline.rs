//! Updates by an aggregation pipeline, with the stages that transform single documents.

use super::UpdateEnv;
use super::modifier::depth;
use super::path::too_deep;
use crate::error::Result;
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
        stages.iter().map(|stage| Transform::parse_stage(stage, scope)).collect::<Result<_>>().map(Pipeline)
    }

    /// Applies the stages to `doc`.
    pub fn apply(&self, doc: Doc<'_>, context: &Context) -> Result<DocBuf> {
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
}
