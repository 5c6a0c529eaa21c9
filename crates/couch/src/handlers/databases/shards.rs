//! `/{db}/_shards`: the shards of a database, which is one shard on one node.

use crate::NODE;
use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// The hash range of the only shard.
const RANGE: &str = "00000000-ffffffff";

/// Lists the shards.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    request.database()?;
    Ok(Response::json(200, &json!({ "shards": { RANGE: [NODE] } })))
}

/// Returns the shard of a document.
pub(crate) fn get_document(request: &mut Request) -> Result<Response> {
    request.database()?;
    Ok(Response::json(200, &json!({ "range": RANGE, "nodes": [NODE] })))
}
