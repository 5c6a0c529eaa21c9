//! `GET /_all_dbs`: the names of all databases.

use super::all_docs::{Members, Parameters};
use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// The names, in order, within `startkey` and `endkey`.
pub fn get(request: &mut Request) -> Result<Response> {
    let names = select(request)?;
    Ok(Response::json(200, &json!(names)))
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
