//! `_explain`: describes how a query would be answered, in CouchDB's format.

use super::find::choose;
use super::follow::follow;
use super::indexes::{self, Listed, as_json, required_fields};
use super::normalize::normalized;
use super::request::{FindRequest, selector_of};
use crate::error::Result;
use crate::http::{Request, Response};
use crate::partition;
use diwan_query::sort::Sort;
use diwan_store::plan::{Shape, explain_plan};
use diwan_value::{Doc, DocBuf, DocBuilder, Value, key};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// Explains a query; `within` is the partition in the path.
pub(crate) fn explain(request: &mut Request, within: Option<String>) -> Result<Response> {
    let collection = request.database()?;
    let body = super::read_body(request)?;
    let asked = FindRequest::read(body, within)?;
    follow(&request.couch, &collection)?;
    let chosen = choose(&asked, &request.couch, &collection, None)?;
    let plan = collection.plan_query(&chosen.query)?;
    let all = indexes::list(&request.couch, &collection);
    // Prefer the names that the query used over other names of the same index.
    let winner = chosen.index.as_ref().or_else(|| {
        let name = plan.index_name()?;
        all.iter().find(|listed| listed.index == name)
    });
    let selector = normalized(selector_of(asked.body.as_doc())?.as_doc().unwrap_or_default());
    let index = winner.map_or_else(indexes::special, |winner| winner.to_json());
    let body = as_json(asked.body.as_doc());
    let member = |name: &str, default: Json| body.get(name).cloned().unwrap_or(default);
    let sort = asked.sort.as_ref().map_or_else(|| json!({}), shown_sort);
    let fields = member("fields", json!([]));
    let use_index = match &asked.use_index {
        None => json!([]),
        Some((ddoc, None)) => json!([ddoc]),
        Some((ddoc, Some(name))) => json!([ddoc, name]),
    };
    let is_partitioned = partition::is_partitioned(&collection);
    let required = required_fields(selector.as_doc());
    let read = read_fields(selector.as_doc(), &fields);
    // An index covers the query if it contains all fields that the query reads.
    let covers = |listed: &Listed| read.as_ref().is_some_and(|read| listed.has_all(read));
    let special = winner.is_some().then(|| {
        json!({
            "index": indexes::special(),
            "analysis": {
                "usable": true,
                "reasons": [{ "name": "unfavored_type" }],
                "ranking": 1,
                "covering": null
            }
        })
    });
    // CouchDB names a reason for each index that was not chosen.
    let others = all
        .iter()
        .filter(|listed| {
            winner.is_none_or(|winner| (&winner.ddoc, &winner.name) != (&listed.ddoc, &listed.name))
        })
        .map(|listed| {
            let usable = listed.is_usable(&required);
            let reason = match (usable, listed.definition.partial.is_some()) {
                _ if listed.failure.is_some() => "build_failed",
                (_, true) => "is_partial",
                (true, _) => "less_overlap",
                (false, _) => "field_mismatch",
            };
            json!({
                "index": listed.to_json(),
                "analysis": {
                    "usable": usable && listed.definition.partial.is_none(),
                    "reasons": [{ "name": reason }],
                    "ranking": 1,
                    "covering": covers(listed)
                }
            })
        });
    let candidates: Vec<Json> = special.into_iter().chain(others).collect();
    let covering = winner.is_some_and(covers);
    let sort_doc = asked.sort.as_ref().map(sort_as_document);
    // A sort only appears in the plan if the index does not provide the order.
    let shape = Shape {
        sort: sort_doc.as_ref().map(DocBuf::as_doc).filter(|_| !plan.sorted),
        skip: asked.skip,
        limit: Some(asked.limit),
        ..Shape::default()
    };
    let reverse = asked.sort.as_ref().is_some_and(|sort| {
        sort.parts().first().is_some_and(|part| part.direction == key::Direction::Descending)
    });
    let reply = json!({
        "dbname": request.param("db"),
        "index": index,
        "partitioned": is_partitioned,
        "selector": as_json(selector.as_doc()),
        "opts": {
            "use_index": use_index,
            "bookmark": asked.bookmark_text.as_deref().unwrap_or("nil"),
            "limit": asked.limit,
            "skip": asked.skip,
            "sort": sort,
            "fields": fields,
            "partition": asked.partition.as_deref().unwrap_or(""),
            "r": member("r", json!(1)),
            "conflicts": asked.conflicts,
            "stale": member("stale", json!(false)),
            "update": member("update", json!(true)),
            "stable": member("stable", json!(false)),
            "execution_stats": asked.execution_stats,
            "allow_fallback": asked.allow_fallback
        },
        "limit": asked.limit,
        "skip": asked.skip,
        "fields": fields,
        "index_candidates": candidates,
        "selector_hints": [{
            "type": "json",
            "indexable_fields": required,
            "unindexable_fields": []
        }],
        "mrargs": {
            "include_docs": !covering,
            "view_type": "map",
            "reduce": false,
            "partition": asked.partition,
            "direction": if reverse { "rev" } else { "fwd" },
            "stable": member("stable", json!(false)),
            "update": member("update", json!(true)),
            "conflicts": asked.conflicts
        },
        "covering": covering,
        // Not part of CouchDB's answer: the plan as MongoDB's `explain` shows it.
        "winning_plan": as_json(explain_plan(&plan, selector.as_doc(), &shape, None).as_doc())
    });
    Ok(Response::json(200, &reply))
}

/// Returns the fields that a query reads: those of its normalized selector and its list of fields. `None` means all.
fn read_fields(selector: Doc<'_>, shown: &Json) -> Option<BTreeSet<String>> {
    fn add(selector: Doc<'_>, all: &mut BTreeSet<String>) {
        for element in selector.iter() {
            match element.value() {
                Value::Array(branches) if element.key_str().starts_with('$') => {
                    branches.iter().filter_map(Value::as_doc).for_each(|branch| add(branch, all));
                }
                Value::Document(inner) if element.key_str() == "$not" => add(inner, all),
                _ => {
                    all.insert(element.key_str().to_owned());
                }
            }
        }
    }
    let shown = shown.as_array().filter(|shown| !shown.is_empty())?;
    let mut all: BTreeSet<String> = shown.iter().filter_map(Json::as_str).map(str::to_owned).collect();
    add(selector, &mut all);
    Some(all)
}

fn shown_sort(sort: &Sort) -> Json {
    let parts = sort.parts().iter().map(|part| {
        let direction = if part.direction == key::Direction::Ascending { "asc" } else { "desc" };
        (part.path.as_str().to_owned(), json!(direction))
    });
    Json::Object(parts.collect())
}

fn sort_as_document(sort: &Sort) -> DocBuf {
    let mut out = DocBuilder::new();
    for part in sort.parts() {
        out.append(part.path.as_str(), if part.direction == key::Direction::Ascending { 1 } else { -1 });
    }
    out.finish()
}
