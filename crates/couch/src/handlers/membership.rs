//! `GET /_membership`: the nodes of the cluster; there is one.

use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// The name of the only node.
pub const NODE: &str = "diwan@127.0.0.1";

/// The list.
pub fn get(_request: &mut Request) -> Result<Response> {
    Ok(Response::json(200, &json!({ "all_nodes": [NODE], "cluster_nodes": [NODE] })))
}
