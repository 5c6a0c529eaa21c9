//! Estimates which commands may take long. Only those are registered for `currentOp`: registering a lookup by `_id`
//! would cost more than the lookup.

use crate::request::Request;
use diwan_value::{Doc, Value};

/// Commands with a longer message count as long whatever they do.
const LONG_MESSAGE: usize = 64 * 1024;

/// The fields that hold a command's filter.
const FILTERS: [&str; 2] = ["filter", "query"];
/// The fields that hold statements, each with a filter `q`.
const STATEMENTS: [&str; 2] = ["updates", "deletes"];

/// Whether a command is so large that processing it may take long.
pub(crate) fn is_long_message(request: &Request<'_>) -> bool {
    let beside: usize = request.sequences.iter().map(|sequence| sequence.bytes()).sum();
    request.body.as_bytes().len() + beside > LONG_MESSAGE
}

/// Whether a command with a filter may read many documents.
pub(crate) fn may_take_long(request: &Request<'_>) -> bool {
    if is_long_message(request) {
        return true;
    }
    if let Some(filter) = FILTERS.iter().find_map(|key| request.body.get_doc(key)) {
        return !names_one_id(filter);
    }
    let is_short = |statement: Doc<'_>| statement.get_doc("q").is_some_and(names_one_id);
    for key in STATEMENTS {
        if let Some(statements) = request.body.get_array(key) {
            return !statements.iter().all(|statement| statement.as_doc().is_some_and(is_short));
        }
    }
    match request.sequences {
        // More than one statement counts as long, so only the first two are looked at.
        [only] => {
            let mut statements = only.documents();
            let first = statements.next().and_then(Result::ok);
            !(first.is_some_and(is_short) && statements.next().is_none())
        }
        _ => true,
    }
}

/// Whether a filter selects one document by its `_id`.
fn names_one_id(filter: Doc<'_>) -> bool {
    filter.get("_id").is_some_and(|id| match id {
        Value::Document(id) => id.iter().next().is_none_or(|element| element.key.first() != Some(&b'$')),
        Value::Regex { .. } => false,
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::{DocBuf, doc};

    fn is_long(body: DocBuf) -> bool {
        may_take_long(&Request::parse(body.as_doc(), &[], Some("test")).unwrap())
    }

    #[test]
    fn may_take_long_is_false_only_for_lookups_by_id() {
        assert!(!is_long(doc! { "find": "c", "filter": { "_id": 1 } }));
        assert!(!is_long(doc! { "find": "c", "filter": { "_id": { "a": 1 } } }));
        assert!(is_long(doc! { "find": "c", "filter": { "_id": { "$gt": 1 } } }));
        assert!(is_long(doc! { "find": "c" }));
        assert!(!is_long(doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": {} }] }));
        assert!(is_long(doc! { "update": "c", "updates": [{ "q": { "a": 1 }, "u": {} }] }));
        assert!(!is_long(doc! { "findAndModify": "c", "query": { "_id": "x" }, "remove": true }));
    }
}
