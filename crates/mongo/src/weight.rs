//! Which commands are worth listing while they run: for a point read the list would cost more than the read.

use crate::request::Request;
use diwan_value::{Doc, Value};

/// Messages longer than this are work enough by themselves.
const LONG_MESSAGE: usize = 64 * 1024;

/// The fields in which the commands say which documents they mean.
const FILTERS: [&str; 2] = ["filter", "query"];
/// The fields in which they list statements, and where a statement has its filter.
const STATEMENTS: [&str; 2] = ["updates", "deletes"];

/// Whether a command comes with so much that it takes time to go through it.
pub(crate) fn is_long_message(request: &Request<'_>) -> bool {
    let beside: usize = request.sequences.iter().map(|sequence| sequence.bytes()).sum();
    request.body.as_bytes().len() + beside > LONG_MESSAGE
}

/// Whether a command that looks for documents may look at many.
pub(crate) fn may_take_long(request: &Request<'_>) -> bool {
    if is_long_message(request) {
        return true;
    }
    if let Some(filter) = FILTERS.iter().find_map(|key| request.body.get_doc(key)) {
        return !is_point(filter);
    }
    let short = |statement: Doc<'_>| statement.get_doc("q").is_some_and(is_point);
    for key in STATEMENTS {
        if let Some(statements) = request.body.get_array(key) {
            return !statements.iter().all(|statement| statement.as_doc().is_some_and(short));
        }
    }
    match request.sequences {
        [only] => {
            let mut statements = only.documents();
            let first = statements.next().and_then(Result::ok);
            !(first.is_some_and(short) && statements.next().is_none())
        }
        _ => true,
    }
}

/// Whether a filter names one document by its `_id`.
fn is_point(filter: Doc<'_>) -> bool {
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

    fn long(body: DocBuf) -> bool {
        may_take_long(&Request::parse(body.as_doc(), &[], Some("test")).unwrap())
    }

    #[test]
    fn only_lookups_by_id_are_short() {
        assert!(!long(doc! { "find": "c", "filter": { "_id": 1 } }));
        assert!(!long(doc! { "find": "c", "filter": { "_id": { "a": 1 } } }));
        assert!(long(doc! { "find": "c", "filter": { "_id": { "$gt": 1 } } }));
        assert!(long(doc! { "find": "c" }));
        assert!(!long(doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": {} }] }));
        assert!(long(doc! { "update": "c", "updates": [{ "q": { "a": 1 }, "u": {} }] }));
        assert!(!long(doc! { "findAndModify": "c", "query": { "_id": "x" }, "remove": true }));
    }
}
