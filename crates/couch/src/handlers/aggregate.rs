//! `POST /{db}/_aggregate`: a pipeline of MongoDB's stages over a database. CouchDB has nothing like it.
//!
//! The body is the pipeline, or an object with `pipeline` and options. Documents are answered in Extended JSON: they are
//! results rather than documents of the database, and their `_id` may be anything.

use crate::error::{Error, Result};
use crate::http::{Flow, Request, Response};
use diwan_kv::Batch;
use diwan_query::Interrupt;
use diwan_store::ops::{Aggregate, Scope};
use diwan_store::plan::Hint;
use diwan_value::json::{self, Limits, Mode};
use diwan_value::{Array, Value};
use std::io::Write;

/// The members that a body may have.
const MEMBERS: [&str; 6] =
    ["pipeline", "let", "collation", "hint", "allowDiskUse", "bypassDocumentValidation"];

/// Runs it.
pub fn post(request: &mut Request) -> Result<Response> {
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
    let mut source = request.couch.store.aggregate(Some(&namespace), &namespace.database, &aggregate)?;
    // What fails at once is told as an error; a pipeline that writes has written when it has nothing to give.
    let first = source.advance(&interrupt)?;
    if !first && writes(aggregate.pipeline) {
        let engine = request.couch.store.engine();
        engine.wait_durable(engine.commit(Batch::new())?)?;
    }
    // Whether the source stands on a document that was not written.
    let mut ready = first;
    let mut separator: &[u8] = b"{\"docs\":[\r\n";
    Ok(Response::rows(move |out| {
        while ready || source.advance(&interrupt)? {
            ready = false;
            let buffer = out.buffer();
            buffer.extend_from_slice(std::mem::replace(&mut separator, b",\r\n"));
            json::write_document(buffer, source.current(), Mode::Exchange);
            if out.is_full() {
                // Nothing of the store is held while a slow client reads.
                source.suspend();
                return Ok(Flow::More);
            }
        }
        let end: &[u8] = if first { b"\r\n]}\n" } else { b"{\"docs\":[\r\n]}\n" };
        out.write_all(end)?;
        Ok(Flow::Done)
    }))
}

/// Whether the pipeline ends in a stage that writes.
fn writes(pipeline: Array<'_>) -> bool {
    let last = pipeline.iter().last().and_then(Value::as_doc).and_then(|stage| stage.iter().next());
    last.is_some_and(|element| matches!(element.key, b"$out" | b"$merge"))
}
