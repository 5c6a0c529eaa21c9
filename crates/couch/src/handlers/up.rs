//! `GET /_up`: can the server answer.

use crate::error::Result;
use crate::http::{Request, Response};
use diwan_kv::Batch;
use serde_json::json;

/// Says so, or why no writes are taken, with the status by which CouchDB leaves a balancer's list of servers.
pub fn get(request: &mut Request) -> Result<Response> {
    // An empty commit is refused like any other, and costs nothing.
    Ok(match request.couch.store.engine().commit(Batch::new()) {
        Ok(_) => Response::json(200, &json!({ "status": "ok", "seeds": {} })),
        Err(error) => Response::json(404, &json!({ "status": "read_only", "reason": error.to_string() })),
    })
}
