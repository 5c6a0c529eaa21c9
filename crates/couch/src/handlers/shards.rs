//! `/{db}/_shards`: how a database is spread; it is one piece on one node.

use super::membership::NODE;
use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// The one range of all hashes.
const RANGE: &str = "00000000-ffffffff";

/// All shards.
pub fn get(request: &mut Request) -> Result<Response> {
    request.database()?;
    Ok(Response::json(200, &json!({ "shards": { RANGE: [NODE] } })))
}

/// The shard of a document.
pub fn get_document(request: &mut Request) -> Result<Response> {
    request.database()?;
    Ok(Response::json(200, &json!({ "range": RANGE, "nodes": [NODE] })))
}
