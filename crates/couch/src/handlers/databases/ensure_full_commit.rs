//! `POST /{db}/_ensure_full_commit`: waits until all writes are durable.

use crate::database::instance_start_time;
use crate::error::Result;
use crate::http::{Request, Response};
use diwan_kv::Batch;
use serde_json::json;

/// Waits for a new, empty commit.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    // An empty commit is durable once all earlier ones are.
    let engine = request.couch.store.engine();
    let commit = engine.commit(Batch::new())?;
    let instance = instance_start_time(&collection);
    Ok(Response::json(201, &json!({ "ok": true, "instance_start_time": instance })).after(Some(commit)))
}
