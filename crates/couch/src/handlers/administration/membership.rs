//! `GET /_membership`: the nodes of the cluster, of which there is one.

use crate::NODE;
use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// Lists the nodes.
pub(crate) fn get(_request: &mut Request) -> Result<Response> {
    Ok(Response::json(200, &json!({ "all_nodes": [NODE], "cluster_nodes": [NODE] })))
}
