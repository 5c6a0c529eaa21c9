//! `POST /{db}/_aggregate`: runs a MongoDB aggregation pipeline on a database. CouchDB has no such endpoint.
//!
//! The body is the pipeline, or an object with `pipeline` and options. Results are formatted as Extended JSON and not
//! as documents, because their `_id` may be of any type.

use crate::auth::{self, rights};
use crate::error::{Error, Result};
use crate::http::{Flow, Request, Response};
use diwan_access::Action;
use diwan_kv::Batch;
use diwan_query::Interrupt;
use diwan_store::DesignGuard;
use diwan_store::ops::{Aggregate, Scope};
use diwan_store::plan::Hint;
use diwan_value::json::{self, Limits, Mode};
use diwan_value::{Array, Value};
use std::io::Write;
use std::sync::Arc;

/// The members that a body may have.
const MEMBERS: [&str; 6] =
    ["pipeline", "let", "collation", "hint", "allowDiskUse", "bypassDocumentValidation"];

/// Runs the pipeline.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    let bytes = request.read_body()?;
    let body = json::parse_value(&bytes, Limits::default())?;
    let interrupt = Interrupt::new();
    let mut aggregate = Aggregate {
        pipeline: Array::EMPTY,
        hint: Hint::None,
        scope: Scope {
            interrupt: interrupt.clone(),
            designs: Some(designs(request)),
            temporary: request.couch.config.temporary.clone(),
            ..Scope::default()
        },
        bypass_validation: false,
    };
    match body.as_value() {
        Value::Array(pipeline) => aggregate.pipeline = pipeline,
        Value::Document(options) => {
            let mut pipeline = None;
            for element in options.iter() {
                match (element.key_str(), element.value()) {
                    ("pipeline", Value::Array(array)) => pipeline = Some(array),
                    ("let", Value::Document(variables)) => aggregate.scope.variables = Some(variables),
                    ("collation", Value::Document(collation)) => {
                        aggregate.scope.collation = Some(collation).filter(|doc| !doc.is_empty());
                    }
                    ("hint", hint) => aggregate.hint = Hint::parse(Some(hint))?,
                    ("allowDiskUse", Value::Boolean(true)) => {}
                    ("allowDiskUse", Value::Boolean(false)) => aggregate.scope.temporary = None,
                    ("bypassDocumentValidation", Value::Boolean(flag)) => aggregate.bypass_validation = flag,
                    (name, _) if MEMBERS.contains(&name) => {
                        return Err(Error::bad_request(format!("`{name}` is of the wrong type")));
                    }
                    (name, _) => return Err(Error::bad_request(format!("Unknown member `{name}`"))),
                }
            }
            aggregate.pipeline =
                pipeline.ok_or_else(|| Error::bad_request("POST body must include `pipeline` parameter."))?;
        }
        _ => return Err(Error::bad_request("Request body must be a pipeline: a JSON array of stages")),
    }
    let namespace = collection.namespace();
    auth::check_pipeline(request, &namespace, aggregate.pipeline)?;
    let mut source = request.couch.store.aggregate(Some(&namespace), &namespace.database, &aggregate)?;
    // The first result is computed here so that errors become error responses. A pipeline that writes has no results
    // and is finished by then.
    let first = source.advance(&interrupt)?;
    if !first && writes(aggregate.pipeline) {
        let engine = request.couch.store.engine();
        engine.wait_durable(engine.commit(Batch::new())?)?;
    }
    // Whether the source is at a document that has not been written yet.
    let mut ready = first;
    let mut separator: &[u8] = b"{\"docs\":[\r\n";
    Ok(Response::rows(move |out| {
        while ready || source.advance(&interrupt)? {
            ready = false;
            let buffer = out.buffer();
            buffer.extend_from_slice(std::mem::replace(&mut separator, b",\r\n"));
            json::write_document(buffer, source.current(), Mode::Exchange);
            if out.is_full() {
                // Release the store's snapshot while the client reads.
                source.suspend();
                return Ok(Flow::More);
            }
        }
        let end: &[u8] = if first { b"\r\n]}\n" } else { b"{\"docs\":[\r\n]}\n" };
        out.write_all(end)?;
        Ok(Flow::Done)
    }))
}

/// Decides whether the pipeline may change design documents.
fn designs(request: &Request) -> DesignGuard {
    let (couch, caller) = (request.couch.clone(), request.caller.clone());
    Arc::new(move |namespace| rights::allows(&couch, &caller, &[Action::CollMod], namespace))
}

/// Whether the pipeline ends in `$out` or `$merge`.
fn writes(pipeline: Array<'_>) -> bool {
    let last = pipeline.iter().last().and_then(Value::as_doc).and_then(|stage| stage.iter().next());
    last.is_some_and(|element| matches!(element.key, b"$out" | b"$merge"))
}
