//! `/{db}/_index`: Mango indexes.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::mango;
use crate::partition;
use serde_json::{Value, json};

/// Lists the indexes.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    mango::follow(&request.couch, &collection)?;
    let bound = |name: &str| -> Result<Option<i64>> {
        let Some(text) = request.query.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| bad_range())
    };
    let (limit, skip) = (bound("limit")?, bound("skip")?);
    if limit.is_some_and(|limit| limit < 1) || skip.is_some_and(|skip| skip < 0) {
        return Err(bad_range());
    }
    let mut all: Vec<Value> = vec![mango::special()];
    all.extend(mango::list(&request.couch, &collection).iter().map(mango::Listed::to_json));
    let total = all.len();
    let as_usize = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
    let shown: Vec<Value> =
        all.into_iter().skip(skip.map_or(0, as_usize)).take(limit.map_or(usize::MAX, as_usize)).collect();
    Ok(Response::json(200, &json!({ "total_rows": total, "indexes": shown })))
}

fn bad_range() -> Error {
    Error::new(500, "invalid_list_index_params", "Index parameter ranges: limit > 1, skip > 0")
}

/// Creates an index; answers when it is built.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let body = mango::read_body(request)?;
    let wanted = mango::IndexRequest::read(body.as_doc())?;
    let (existed, ddoc, name) = mango::create(&request.couch, &collection, &wanted)?;
    let result = if existed { "exists" } else { "created" };
    Ok(Response::json(200, &json!({ "result": result, "id": ddoc, "name": name })))
}

/// Deletes an index.
pub(crate) fn delete(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let (ddoc, name) = (request.param("ddoc"), request.param("name"));
    if request.param("kind") != "json" || !mango::remove(&request.couch, &collection, ddoc, Some(name))? {
        return Err(Error::missing());
    }
    Ok(Response::ok(200))
}

/// Answers paths that name no index.
pub(crate) fn missing(request: &mut Request) -> Result<Response> {
    request.database()?;
    Err(Error::missing())
}

/// Lists the indexes of the partition's database.
pub(crate) fn get_partition(request: &mut Request) -> Result<Response> {
    partition::of(request)?;
    get(request)
}

/// Creates an index in the partition's database.
pub(crate) fn post_partition(request: &mut Request) -> Result<Response> {
    partition::of(request)?;
    post(request)
}

/// Deletes all indexes of several design documents.
pub(crate) fn bulk_delete(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let body = mango::read_body(request)?;
    let (mut success, mut fail) = (Vec::new(), Vec::new());
    for name in mango::bulk_delete_names(body.as_doc())? {
        let id = if name.starts_with("_design/") { name } else { format!("_design/{name}") };
        match mango::remove(&request.couch, &collection, &id, None)? {
            true => success.push(json!({ "id": id, "ok": true })),
            false => fail.push(json!({ "id": id, "error": "not_found" })),
        }
    }
    Ok(Response::json(200, &json!({ "success": success, "fail": fail })))
}
