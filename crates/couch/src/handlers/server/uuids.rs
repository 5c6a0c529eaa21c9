//! `GET /_uuids`: generated document ids.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use hyper::header::{CACHE_CONTROL, EXPIRES, PRAGMA};
use serde_json::json;

/// Returns `count` ids.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let count = request.query.number("count")?.unwrap_or(1);
    if count > request.couch.setting_number("uuids", "max_count", 1000).min(100_000) {
        return Err(Error::bad_request("count parameter too large"));
    }
    let ids: Vec<String> = (0..count).map(|_| request.couch.new_id()).collect();
    let tag = ids.first().cloned().unwrap_or_default();
    Ok(Response::json(200, &json!({ "uuids": ids }))
        .with_header(CACHE_CONTROL, "no-cache, no-store, must-revalidate")
        .with_header(PRAGMA, "no-cache")
        .with_header(EXPIRES, "Mon, 01 Jan 1990 00:00:00 GMT")
        .with_etag(&tag))
}
