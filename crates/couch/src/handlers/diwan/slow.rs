//! `/_diwan/slow`: slow operations of both faces, by the shape of the query.

use crate::error::Result;
use crate::http::{Request, Response};
use crate::names;
use diwan_access::{Action, Resource};
use diwan_store::slow::SlowShape;
use diwan_value::extjson::{self, Mode};
use serde_json::{Value, json};
use std::time::UNIX_EPOCH;

/// Returns the shapes on collections that the caller may read.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let slow = request.couch.store.slow();
    let may_read = |shape: &SlowShape| {
        request.couch.access.allows(&request.caller, Action::Find, Resource::collection(&shape.namespace))
    };
    let shapes: Vec<Value> = slow.list().iter().filter(|shape| may_read(shape)).map(shown).collect();
    Ok(Response::json(200, &json!({ "threshold_ms": slow.threshold_millis(), "shapes": shapes })))
}

/// Forgets all shapes.
pub(crate) fn delete(request: &mut Request) -> Result<Response> {
    request.couch.store.slow().clear();
    Ok(Response::ok(200))
}

fn shown(shape: &SlowShape) -> Value {
    let millis = |duration: std::time::Duration| duration.as_secs_f64() * 1000.0;
    let text = |doc| serde_json::from_str::<Value>(&extjson::to_json(doc, Mode::Relaxed)).unwrap_or_default();
    json!({
        "namespace": shape.namespace.to_string(),
        "db": names::database(&shape.namespace),
        "operation": shape.operation,
        "shape": text(shape.shape.as_doc()),
        "count": shape.count,
        "total_ms": millis(shape.total),
        "max_ms": millis(shape.max),
        "keys_examined": shape.read.keys,
        "docs_examined": shape.read.documents,
        "returned": shape.returned,
        "plan": shape.plan,
        "last": shape.last.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
        "example": text(shape.example.as_doc()),
    })
}
