//! `GET /`: what answers here.

use crate::COUCHDB_VERSION;
use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// Welcomes.
pub fn get(request: &mut Request) -> Result<Response> {
    let couch = &request.couch;
    Ok(Response::json(
        200,
        &json!({
            "couchdb": "Welcome",
            "version": COUCHDB_VERSION,
            "uuid": couch.uuid,
            "features": ["partitioned", "scheduler"],
            "vendor": { "name": "Diwan", "version": couch.config.version }
        }),
    ))
}
