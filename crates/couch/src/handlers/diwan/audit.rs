//! `GET /_diwan/audit`: the last entries of the audit log.

use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// How many entries are shown unless the request says otherwise, and at most.
const LIMIT: u64 = 100;
const MOST: u64 = 500;

/// Returns the entries, the newest first.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let limit = request.query.number("limit")?.unwrap_or(LIMIT).min(MOST);
    let entries = request.couch.access.audit.recent(limit as usize);
    Ok(Response::json(200, &json!({ "entries": entries })))
}
