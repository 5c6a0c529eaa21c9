//! `GET /_up`: can the server answer.

use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// Says so, or why no writes are taken, with the status by which CouchDB leaves a balancer's list of servers.
pub fn get(request: &mut Request) -> Result<Response> {
    Ok(match request.couch.store.engine().writable() {
        Ok(()) => Response::json(200, &json!({ "status": "ok", "seeds": {} })),
        Err(error) => Response::json(404, &json!({ "status": "read_only", "reason": error.to_string() })),
    })
}
