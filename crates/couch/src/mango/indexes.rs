//! Mango indexes: the store's indexes under the names that CouchDB gives them.
//!
//! CouchDB stores an index as a view of a design document, so it has two names; [`Names`] records them. Indexes
//! created by MongoDB clients have no design document.

use super::names::Names;
use super::request::IndexRequest;
use super::selector::Selector;
use crate::error::Result;
use crate::server::Couch;
use diwan_query::filter::Filter;
use diwan_store::{Collection, FieldOrder, IndexKind, IndexSpec};
use diwan_value::key::Direction as Order;
use diwan_value::{Doc, DocBuf, Value, json};
use serde_json::json;
use std::collections::BTreeSet;

/// The fields and the selector of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// The fields, named as over HTTP, and whether each is descending.
    pub(crate) fields: Vec<(String, bool)>,
    /// The selector of the indexed documents.
    pub(crate) partial: Option<DocBuf>,
}

/// An index as `GET _index` lists it.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// The design document's id; `None` for an index created by a MongoDB client.
    pub(crate) ddoc: Option<String>,
    /// The name in the design document.
    pub(crate) name: String,
    /// Whether the index serves queries within partitions.
    pub(crate) partitioned: bool,
    /// The fields and the selector.
    pub(crate) definition: Definition,
    /// The index's name in the store.
    pub(crate) index: String,
    /// Why the index could not be built. Then it has no name in the store.
    pub(crate) failure: Option<String>,
}

impl Listed {
    /// The JSON form.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let mut out = json!({
            "ddoc": self.ddoc,
            "name": self.name,
            "type": "json",
            "partitioned": self.partitioned,
            "def": self.definition.to_json()
        });
        if let Some(failure) = &self.failure {
            out["error"] = failure.as_str().into();
        }
        out
    }

    /// Whether the index exists and every document that can match has all of its fields.
    pub(crate) fn is_usable(&self, required: &BTreeSet<String>) -> bool {
        let is_required = |field: &str| field == "_id" || field == "_rev" || required.contains(field);
        self.failure.is_none() && self.definition.fields.iter().all(|(field, _)| is_required(field))
    }

    /// Whether the index contains all of these fields.
    pub(crate) fn has_all(&self, fields: &BTreeSet<String>) -> bool {
        fields
            .iter()
            .all(|field| field == "_id" || self.definition.fields.iter().any(|(own, _)| own == field))
    }

    /// Whether a query's `use_index` refers to this index.
    fn is_called(&self, ddoc: &str, name: Option<&str>) -> bool {
        match &self.ddoc {
            Some(own) => {
                own.strip_prefix("_design/") == Some(ddoc) && name.is_none_or(|name| name == self.name)
            }
            None => name.is_none() && self.name == ddoc,
        }
    }
}

impl Definition {
    fn to_json(&self) -> serde_json::Value {
        let fields: Vec<_> = self
            .fields
            .iter()
            .map(|(field, descends)| json!({ field.as_str(): if *descends { "desc" } else { "asc" } }))
            .collect();
        let mut out = json!({ "fields": fields });
        if let Some(partial) = &self.partial {
            out["partial_filter_selector"] = as_json(partial.as_doc());
        }
        out
    }

    /// Returns the definition in a request.
    pub(crate) fn asked(request: &IndexRequest) -> Definition {
        let fields = request.fields.parts().iter();
        let fields = fields.map(|part| (shown_name(part.path.as_str()), part.direction == Order::Descending));
        Definition { fields: fields.collect(), partial: request.partial.clone() }
    }

    fn of(spec: &IndexSpec) -> Option<Definition> {
        if spec.kind != IndexKind::Ordinary || spec.hidden {
            return None;
        }
        let mut fields = Vec::new();
        for field in &spec.fields {
            match field.order {
                FieldOrder::Ascending => fields.push((shown_name(field.path.as_str()), false)),
                FieldOrder::Descending => fields.push((shown_name(field.path.as_str()), true)),
                FieldOrder::Hashed => return None,
            }
        }
        let partial = spec.to_doc().get_doc("partialFilterExpression");
        // A filter written by a MongoDB client is shown unchanged.
        let partial = partial.map(|filter| filter.get_doc("$mango").unwrap_or(filter).to_owned());
        Some(Definition { fields, partial })
    }

    /// Returns the filter of the indexed documents; a query that uses the index must imply it.
    pub(crate) fn partial_filter(&self) -> Result<Option<Filter>> {
        let Some(partial) = &self.partial else { return Ok(None) };
        Ok(Some(Selector::parse(Value::Document(partial.as_doc()))?.stored()))
    }
}

/// Converts a document to JSON for answers that the server composes.
pub(super) fn as_json(doc: Doc<'_>) -> serde_json::Value {
    let mut text = Vec::new();
    json::write_document(&mut text, doc, json::Mode::Exchange);
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Converts a stored field's name to its name over HTTP.
pub(super) fn shown_name(path: &str) -> String {
    if json::is_metadata_member(path.split('.').next().unwrap_or_default()) {
        format!("${path}")
    } else {
        path.to_owned()
    }
}

/// The built-in index on `_id`.
pub(crate) fn special() -> serde_json::Value {
    json!({
        "ddoc": null,
        "name": "_all_docs",
        "type": "special",
        "def": { "fields": [{ "_id": "asc" }] }
    })
}

/// Lists all indexes except the built-in one, sorted by name, including those that could not be built.
pub(crate) fn list(couch: &Couch, collection: &Collection) -> Vec<Listed> {
    let schema = collection.schema();
    let names = Names::existing(collection);
    let mut all = couch.followed_designs.unmade(collection);
    for index in schema.indexes.iter().filter(|index| index.is_ready() && !index.spec.is_id_index()) {
        let Some(definition) = Definition::of(&index.spec) else { continue };
        let mut named = false;
        for names in names.iter().filter(|names| names.index == index.spec.name) {
            named |= names.own;
            all.push(Listed {
                ddoc: Some(names.ddoc.clone()),
                name: names.name.clone(),
                partitioned: names.partitioned,
                definition: definition.clone(),
                index: names.index.clone(),
                failure: None,
            });
        }
        if !named {
            all.push(Listed {
                ddoc: None,
                name: index.spec.name.clone(),
                partitioned: false,
                definition,
                index: index.spec.name.clone(),
                failure: None,
            });
        }
    }
    all.sort_by(|a, b| (&a.ddoc, &a.name).cmp(&(&b.ddoc, &b.name)));
    all
}

/// Lists the indexes that a query's `use_index` refers to.
pub(super) fn called(couch: &Couch, collection: &Collection, ddoc: &str, name: Option<&str>) -> Vec<Listed> {
    let mut all = list(couch, collection);
    all.retain(|listed| listed.is_called(ddoc, name));
    all
}

/// Returns the fields that every matching document must have.
pub(super) fn required_fields(selector: Doc<'_>) -> BTreeSet<String> {
    required_under("", selector)
}

fn required_under(prefix: &str, selector: Doc<'_>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for element in selector.iter() {
        let name = element.key_str();
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let branches = |value: Value<'_>| -> Vec<BTreeSet<String>> {
            let docs = value
                .as_array()
                .into_iter()
                .flat_map(|list| list.iter().filter_map(Value::as_doc).collect::<Vec<_>>());
            docs.map(|doc| required_under(prefix, doc)).collect()
        };
        match (name, element.value()) {
            ("$and", value) => all.extend(branches(value).into_iter().flatten()),
            ("$or", value) => {
                let common = branches(value).into_iter().reduce(|a, b| a.intersection(&b).cloned().collect());
                all.extend(common.unwrap_or_default());
            }
            // `$_name` is a renamed field and not an operator.
            (name, _) if name.starts_with('$') && !name.starts_with("$_") => {}
            (_, Value::Document(inner)) => {
                let is_operator = inner
                    .iter()
                    .next()
                    .is_some_and(|first| first.key.first() == Some(&b'$') && first.key.get(1) != Some(&b'_'));
                if !is_operator && !inner.is_empty() {
                    all.extend(required_under(&path, inner));
                } else if inner.get("$exists") != Some(Value::Boolean(false)) {
                    all.insert(path);
                }
            }
            _ => {
                all.insert(path);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::json::Limits;

    #[test]
    fn required_fields_follow_the_operators() {
        for (text, expected) in [
            (r#"{"a":1,"b":{"c":{"$gt":1}}}"#, vec!["a", "b.c"]),
            (r#"{"$and":[{"a":1},{"b":{"$exists":false}}]}"#, vec!["a"]),
            (r#"{"$or":[{"a":1,"b":2},{"b":3}]}"#, vec!["b"]),
            (r#"{"$nor":[{"a":1}],"$__v":0}"#, vec!["$__v"]),
            ("{}", vec![]),
        ] {
            let selector = json::parse_document(text.as_bytes(), Limits::default()).unwrap();
            let required: Vec<String> = required_fields(selector.as_doc()).into_iter().collect();
            assert_eq!(required, expected, "{text}");
        }
    }
}
