//! Selectors in CouchDB's normal form: every condition has an explicit operator, fields are full paths, several
//! conditions form a list, and negations are pushed down as far as possible.

use diwan_value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Value, doc};

/// Returns the equivalent selector in normal form.
pub(super) fn normalized(selector: Doc<'_>) -> DocBuf {
    if selector.is_empty() {
        DocBuf::new()
    } else {
        Place { path: "", inner: false }.members(selector, false)
    }
}

/// The position of a condition in a selector.
#[derive(Clone, Copy)]
struct Place<'p> {
    /// The path of the enclosing fields.
    path: &'p str,
    /// Inside `$elemMatch` and the like, negations are not pushed down.
    inner: bool,
}

impl Place<'_> {
    /// Normalizes the conditions on the value at this position, negated if `negated`.
    fn asked(self, value: Value<'_>, negated: bool) -> DocBuf {
        match value {
            Value::Document(doc) if !doc.is_empty() => self.members(doc, negated),
            constant => self.condition(if negated { "$ne" } else { "$eq" }, constant),
        }
    }

    fn members(self, doc: Doc<'_>, negated: bool) -> DocBuf {
        let mut members = doc.iter();
        match (members.next(), members.next()) {
            (Some(only), None) => self.member(only.key_str(), only.value(), negated),
            _ => {
                let all = doc.iter().map(|member| self.member(member.key_str(), member.value(), negated));
                list(if negated { "$or" } else { "$and" }, all)
            }
        }
    }

    fn member(self, name: &str, value: Value<'_>, negated: bool) -> DocBuf {
        // `$_name` is a renamed field and not an operator.
        if !name.starts_with('$') || name.starts_with("$_") {
            let path = match self.path {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            return Place { path: &path, ..self }.asked(value, negated);
        }
        match (name, value) {
            ("$nor", Value::Array(all)) if self.inner => {
                list("$nor", all.iter().map(|one| self.asked(one, false)))
            }
            ("$not", inner @ Value::Document(_)) if self.inner => doc! { "$not": self.asked(inner, false) },
            ("$and", Value::Array(all)) => {
                list(if negated { "$or" } else { "$and" }, all.iter().map(|one| self.asked(one, negated)))
            }
            ("$or", Value::Array(all)) => {
                list(if negated { "$and" } else { "$or" }, all.iter().map(|one| self.asked(one, negated)))
            }
            ("$nor", Value::Array(all)) => {
                list(if negated { "$or" } else { "$and" }, all.iter().map(|one| self.asked(one, !negated)))
            }
            ("$not", inner @ Value::Document(_)) => self.asked(inner, !negated),
            ("$elemMatch" | "$allMatch" | "$keyMapMatch", inner @ Value::Document(_)) => {
                let inner = Place { path: "", inner: true }.asked(inner, false);
                self.operator(name, Value::Document(inner.as_doc()), negated)
            }
            _ => self.operator(name, value, negated),
        }
    }

    /// Normalizes an operator on the value itself.
    fn operator(self, name: &str, value: Value<'_>, negated: bool) -> DocBuf {
        let opposite = match (name, value) {
            _ if !negated => return self.condition(name, value),
            ("$exists", Value::Boolean(flag)) => return self.condition(name, Value::Boolean(!flag)),
            ("$lt", _) => "$gte",
            ("$lte", _) => "$gt",
            ("$gt", _) => "$lte",
            ("$gte", _) => "$lt",
            ("$eq", _) => "$ne",
            ("$ne", _) => "$eq",
            ("$in", _) => "$nin",
            ("$nin", _) => "$in",
            _ => {
                let mut condition = DocBuilder::new();
                condition.append(name, value);
                return self.condition("$not", Value::Document(condition.finish().as_doc()));
            }
        };
        self.condition(opposite, value)
    }

    fn condition(self, operator: &str, value: Value<'_>) -> DocBuf {
        let mut condition = DocBuilder::new();
        condition.begin_document(self.path).append(operator, value).end();
        condition.finish()
    }
}

fn list(operator: &str, all: impl Iterator<Item = DocBuf>) -> DocBuf {
    let mut array = ArrayBuilder::new();
    for one in all {
        array.push(one);
    }
    let mut out = DocBuilder::new();
    out.append(operator, array);
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mango::Selector;
    use crate::mango::indexes::as_json;
    use diwan_value::json::{self, Limits};
    use serde_json::json;

    #[test]
    fn normalized_selectors_match_couchdb() {
        for (text, expected) in [
            ("{}", json!({})),
            (r#"{"a":1}"#, json!({"a": {"$eq": 1}})),
            (r#"{"a":{"b":{"c":1}}}"#, json!({"a.b.c": {"$eq": 1}})),
            (r#"{"a":{}}"#, json!({"a": {"$eq": {}}})),
            (r#"{"$_c":[1]}"#, json!({"$_c": {"$eq": [1]}})),
            (
                r#"{"a":{"$gt":1,"$lt":3},"b":2}"#,
                json!({"$and": [{"$and": [{"a": {"$gt": 1}}, {"a": {"$lt": 3}}]}, {"b": {"$eq": 2}}]}),
            ),
            (r#"{"$or":[{"a":1},{"b":2}]}"#, json!({"$or": [{"a": {"$eq": 1}}, {"b": {"$eq": 2}}]})),
            (r#"{"$not":{"a":{"$gt":1}}}"#, json!({"a": {"$lte": 1}})),
            (
                r#"{"$nor":[{"a":1},{"b":{"$exists":true}}]}"#,
                json!({"$and": [{"a": {"$ne": 1}}, {"b": {"$exists": false}}]}),
            ),
            (
                r#"{"$not":{"$and":[{"a":{"$in":[1]}},{"b":{"$regex":"x"}}]}}"#,
                json!({"$or": [{"a": {"$nin": [1]}}, {"b": {"$not": {"$regex": "x"}}}]}),
            ),
            (
                r#"{"a":{"$elemMatch":{"$gte":80,"$lt":85}}}"#,
                json!({"a": {"$elemMatch": {"$and": [{"": {"$gte": 80}}, {"": {"$lt": 85}}]}}}),
            ),
            (
                r#"{"a":{"$elemMatch":{"b":1,"$not":{"c":2}}}}"#,
                json!({"a": {"$elemMatch": {"$and": [{"b": {"$eq": 1}}, {"$not": {"c": {"$eq": 2}}}]}}}),
            ),
        ] {
            let selector = json::parse_document(text.as_bytes(), Limits::default()).unwrap();
            let once = normalized(selector.as_doc());
            assert_eq!(as_json(once.as_doc()), expected, "{text}");
            assert!(Selector::parse(Value::Document(once.as_doc())).is_ok(), "{text}");
        }
    }
}
