//! `GET /_all_dbs`: the names of all databases.

use super::all_docs::{Members, Parameters};
use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// The names, in order, within `startkey` and `endkey`. Their tag is that of all names.
pub fn get(request: &mut Request) -> Result<Response> {
    let mut hasher = blake3::Hasher::new();
    for (name, _) in request.couch.databases() {
        // No name has a NUL in it.
        hasher.update(name.as_bytes()).update(&[0]);
    }
    let tag = &hasher.finalize().to_hex()[..32];
    if let Some(response) = request.not_modified(tag) {
        return Ok(response);
    }
    let names = select(request)?;
    Ok(Response::json(200, &json!(names)).with_etag(tag))
}

/// The names that the request's parameters choose.
pub fn select(request: &Request) -> Result<Vec<String>> {
    let wanted = Parameters::read(&Members::new(&request.query, None))?;
    let mut names: Vec<String> = request.couch.databases().into_iter().map(|(name, _)| name).collect();
    if wanted.descending {
        names.reverse();
    }
    let (skip, limit) = wanted.page();
    Ok(names.into_iter().filter(|name| wanted.interval.contains(name)).skip(skip).take(limit).collect())
}
