//! `GET /_up`: whether the server is available.

use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// Reports availability. If writes are refused, the status is 404, which makes load balancers avoid the server.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    Ok(match request.couch.store.engine().writable() {
        Ok(()) => Response::json(200, &json!({ "status": "ok", "seeds": {} })),
        Err(error) => Response::json(404, &json!({ "status": "read_only", "reason": error.to_string() })),
    })
}
