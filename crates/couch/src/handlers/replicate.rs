//! `POST /_replicate`: starts a replication, waits for one that ends, or ends one.

use crate::error::Result;
use crate::http::{Request, Response};
use crate::replicator::Outcome;
use serde_json::{Value, json};

/// Does what the body asks for.
pub fn post(request: &mut Request) -> Result<Response> {
    request.require_json()?;
    let body = request.read_object()?;
    match request.couch.replicator()?.replicate(&body)? {
        Outcome::Finished(mut answer) => {
            answer.insert("ok".into(), json!(true));
            Ok(Response::json(200, &Value::Object(answer)))
        }
        Outcome::Started(id) => Ok(Response::json(202, &json!({ "ok": true, "_local_id": id }))),
        Outcome::Cancelled(id) => Ok(Response::json(200, &json!({ "ok": true, "_local_id": id }))),
    }
}
