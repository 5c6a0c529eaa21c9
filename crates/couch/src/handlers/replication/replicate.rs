//! `POST /_replicate`: starts or cancels a replication.

use crate::error::Result;
use crate::http::{Flow, Request, Response};
use crate::replicator::{Asked, Outcome};
use hyper::StatusCode;
use serde_json::{Value, json};
use std::io::Write;

/// Starts the replication and waits for it without occupying a thread.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    request.require_json()?;
    let body = request.read_object()?;
    let job = match request.couch.replicator()?.replicate(&body, &request.caller)? {
        Asked::Done(outcome) => {
            let (status, answer) = describe(outcome);
            return Ok(Response::json(status, &answer));
        }
        Asked::Job(job) => job,
    };
    let couch = request.couch.clone();
    Ok(Response::rows(move |out| {
        let Some(outcome) = couch.replicator()?.outcome(&job)? else { return Ok(Flow::Later) };
        let (status, answer) = describe(outcome);
        writeln!(out, "{answer}")?;
        out.change_head(move |response| {
            response.with_status(StatusCode::from_u16(status).unwrap_or(StatusCode::OK))
        });
        Ok(Flow::Done)
    }))
}

/// Returns the status and the body for an outcome.
fn describe(outcome: Outcome) -> (u16, Value) {
    match outcome {
        Outcome::Finished(mut answer) => {
            answer.insert("ok".into(), json!(true));
            (200, Value::Object(answer))
        }
        Outcome::Started(id) => (202, json!({ "ok": true, "_local_id": id })),
        Outcome::Cancelled(id) => (200, json!({ "ok": true, "_local_id": id })),
    }
}
