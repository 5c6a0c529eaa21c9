//! `distinct`: the distinct values at a path.

use super::find::Find;
use super::scope::Scope;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::plan::Hint;
use crate::store::{Entry, Store};
use diwan_value::key::{Direction, encode_order};
use diwan_value::{ArrayBuilder, Doc, MAX_DOCUMENT_BYTES, Path, Value, ValueBuf};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A distinct.
#[derive(Clone, Default)]
pub struct Distinct<'a> {
    /// The path.
    pub key: &'a str,
    /// The filter.
    pub filter: Doc<'a>,
    /// The access to use.
    pub hint: Hint,
    /// Collation, interrupt.
    pub scope: Scope<'a>,
}

impl Store {
    /// The distinct values in their order, as an array. The elements of an array on the path count as values.
    pub fn distinct(self: &Arc<Self>, namespace: &Namespace, request: &Distinct<'_>) -> Result<ArrayBuilder> {
        let path = Path::new(request.key);
        let collator = match self.entry(namespace) {
            Some(Entry::Collection(collection)) => {
                request.scope.ready(collection.schema().options.collator.as_ref())?.collator()
            }
            _ => request.scope.ready(None)?.collator(),
        };
        let find = Find {
            filter: request.filter,
            hint: request.hint.clone(),
            scope: request.scope.clone(),
            ..Find::default()
        };
        let mut source = self.find(namespace, &find)?;
        let mut values: BTreeMap<Vec<u8>, ValueBuf> = BTreeMap::new();
        let (mut key, mut bytes) = (Vec::new(), 0);
        while source.advance(&request.scope.interrupt)? {
            let mut add = |value: Value<'_>| {
                key.clear();
                encode_order(&mut key, value, Direction::Ascending, collator.as_deref());
                if !values.contains_key(&key) {
                    let value = value.to_owned();
                    // The size of the value as an element of the reply, with its type and index.
                    bytes += value.as_raw().bytes.len() + 3 + values.len().max(1).ilog10() as usize;
                    values.insert(key.clone(), value);
                }
            };
            reach(Value::Document(source.current()), &path, 0, &mut add);
            if bytes > MAX_DOCUMENT_BYTES {
                return Err(Error::refused(17217, "distinct too big, 16mb cap"));
            }
        }
        let mut sorted = ArrayBuilder::new();
        for value in values.values() {
            sorted.push(value);
        }
        Ok(sorted)
    }
}

/// Passes every value at the parts of `path` from `at` on to `show`. Enters arrays.
fn reach<'a>(value: Value<'a>, path: &Path, at: usize, show: &mut impl FnMut(Value<'a>)) {
    match value {
        Value::Array(array) if at == path.depth() => array.iter().for_each(show),
        _ if at == path.depth() => show(value),
        Value::Document(doc) => {
            if let Some(inner) = doc.get(path.name(at)) {
                reach(inner, path, at + 1, show);
            }
        }
        Value::Array(array) => {
            if let Some(index) = path.index(at)
                && let Some(element) = array.get(index)
            {
                reach(element, path, at + 1, show);
            }
            for element in array.iter().filter(|element| matches!(element, Value::Document(_))) {
                reach(element, path, at, show);
            }
        }
        _ => {}
    }
}
