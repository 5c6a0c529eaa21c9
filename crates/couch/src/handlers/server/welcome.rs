//! `GET /`: identifies the server.

use crate::COUCHDB_VERSION;
use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// Returns the server's name, version and features.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let couch = &request.couch;
    let mut welcome = json!({
        "couchdb": "Welcome",
        "version": COUCHDB_VERSION,
        "uuid": couch.uuid,
        "features": ["partitioned", "scheduler"],
        "vendor": { "name": "Diwan", "version": couch.config.version }
    });
    if couch.store.replica().follows() {
        welcome["role"] = json!("follower");
    }
    Ok(Response::json(200, &welcome))
}
