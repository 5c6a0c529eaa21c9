//! Field paths of the expression language, which map over arrays and never index them.

use super::EvalEnv;
use crate::error::Result;
use diwan_value::{Array, ArrayBuilder, Doc, Path, Value};

/// The value at `path` in `doc`.
pub(crate) fn get<'a>(env: &EvalEnv<'a>, doc: Doc<'a>, path: &Path) -> Result<Option<Value<'a>>> {
    get_from(env, doc, path, 0)
}

/// The value at `path` in a document. In an array of documents, the array of their values.
pub(crate) fn get_in_value<'a>(
    env: &EvalEnv<'a>,
    value: Value<'a>,
    path: &Path,
) -> Result<Option<Value<'a>>> {
    step(env, value, path, 0)
}

/// The value at the path parts from `at` on.
fn get_from<'a>(env: &EvalEnv<'a>, doc: Doc<'a>, path: &Path, mut at: usize) -> Result<Option<Value<'a>>> {
    let mut doc = doc;
    loop {
        let Some(value) = doc.get(path.name(at)) else { return Ok(None) };
        at += 1;
        match value {
            _ if at == path.depth() => return Ok(Some(value)),
            Value::Document(inner) => doc = inner,
            other => return step(env, other, path, at),
        }
    }
}

/// Continues into `value` with the path parts from `at` on.
fn step<'a>(env: &EvalEnv<'a>, value: Value<'a>, path: &Path, at: usize) -> Result<Option<Value<'a>>> {
    match value {
        Value::Document(doc) => get_from(env, doc, path, at),
        Value::Array(array) => map(env, array, path, at).map(Some),
        _ => Ok(None),
    }
}

/// The values inside the documents of `array`. Elements that are not documents, and documents without the path, are
/// skipped.
fn map<'a>(env: &EvalEnv<'a>, array: Array<'a>, path: &Path, at: usize) -> Result<Value<'a>> {
    let mut found = ArrayBuilder::new();
    for value in array.iter() {
        if let Value::Document(doc) = value
            && let Some(inner) = get_from(env, doc, path, at)?
        {
            found.push(inner);
        }
    }
    env.array(found)
}
