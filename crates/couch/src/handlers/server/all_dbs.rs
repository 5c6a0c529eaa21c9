//! `GET /_all_dbs`: the names of all databases.

use crate::error::Result;
use crate::handlers::listing::{Members, Parameters};
use crate::http::{Request, Response};
use serde_json::json;

/// Lists the names in order, within `startkey` and `endkey`. The `ETag` covers all names.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let mut hasher = blake3::Hasher::new();
    for (name, _) in request.couch.databases() {
        // NUL separates the names, which cannot contain it.
        hasher.update(name.as_bytes()).update(&[0]);
    }
    let tag = &hasher.finalize().to_hex()[..32];
    if let Some(response) = request.not_modified(tag) {
        return Ok(response);
    }
    let names = select(request)?;
    Ok(Response::json(200, &json!(names)).with_etag(tag))
}

/// Returns the names that the request's parameters select.
pub(crate) fn select(request: &Request) -> Result<Vec<String>> {
    let wanted = Parameters::read(&Members::new(&request.query, None))?;
    let mut names: Vec<String> = request.couch.databases().into_iter().map(|(name, _)| name).collect();
    if wanted.descending {
        names.reverse();
    }
    let (skip, limit) = wanted.page();
    Ok(names.into_iter().filter(|name| wanted.interval.contains(name)).skip(skip).take(limit).collect())
}
