//! `POST /_diwan/map/{db}`: runs a map function on a few documents.

use crate::design::body_text;
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_script::{Fault, TemporaryView, Trial, TrialScope};
use diwan_store::id_key;
use diwan_value::json::id_from_text;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// How many documents one request may map.
const MOST_DOCUMENTS: usize = 500;
/// How many are mapped if the request does not say it.
const DEFAULT_DOCUMENTS: usize = 20;

/// Maps the documents and answers with their rows and the errors.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    request.require_json()?;
    let collection = request.database()?;
    let body = body_text(request)?.unwrap_or_default();
    let view = TemporaryView::parse(&body)?;
    let members: Map<String, Value> =
        serde_json::from_str(&body).map_err(|error| Error::bad_request(error.to_string()))?;
    let scope = scope(&members)?;
    let couch = &request.couch;
    let _place = couch.workers.mapper().ok_or_else(|| {
        Error::new(503, "service_unavailable", "All places for map functions are taken: try again.")
    })?;
    let trial = couch.views().trial(&collection, &view, &scope)?;
    Ok(Response::json_text(200, shown(&trial, view.view.reduce.is_some())))
}

fn scope(members: &Map<String, Value>) -> Result<TrialScope> {
    let too_many = || Error::bad_request(format!("At most {MOST_DOCUMENTS} documents can be mapped."));
    match (members.get("ids"), members.get("sample")) {
        (Some(_), Some(_)) => Err(Error::bad_request("`ids` and `sample` are mutually exclusive.")),
        (None, None) => Ok(TrialScope::First(DEFAULT_DOCUMENTS)),
        (None, Some(count)) => {
            let count = count.as_u64().and_then(|count| usize::try_from(count).ok());
            let count = count.ok_or_else(|| Error::bad_request("`sample` must be a number."))?;
            if count > MOST_DOCUMENTS { Err(too_many()) } else { Ok(TrialScope::First(count)) }
        }
        (Some(ids), None) => {
            let wrong = || Error::bad_request("`ids` must be an array of strings.");
            let ids = ids.as_array().ok_or_else(wrong)?;
            if ids.len() > MOST_DOCUMENTS {
                return Err(too_many());
            }
            let key = |id: &Value| {
                let id = id_from_text(id.as_str().ok_or_else(wrong)?);
                let id = id.map_err(|error| Error::illegal_docid(error.to_string()))?;
                id_key(id.as_value()).map_err(Error::from)
            };
            ids.iter().map(key).collect::<Result<_>>().map(TrialScope::Ids)
        }
    }
}

fn shown(trial: &Trial, reduces: bool) -> Vec<u8> {
    // Rows are JSON that scripts wrote; their numbers and the order of their members are kept.
    let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap_or_default();
    let mut out = Vec::new();
    out.extend_from_slice(br#"{"documents":["#);
    for (at, document) in trial.documents.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        append(&mut out, br#"{"id":"#, &json!(document.id));
        out.extend_from_slice(br#","rows":["#);
        for (at, (key, value)) in document.rows.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            append(&mut out, br#"{"key":"#, &raw(key));
            append(&mut out, br#","value":"#, &raw(value));
            out.push(b'}');
        }
        append(&mut out, br#"],"error":"#, &document.fault.as_ref().map(fault));
        out.push(b'}');
    }
    out.push(b']');
    if reduces {
        append(&mut out, br#","reduced":"#, &raw(trial.reduced.as_deref().unwrap_or("null")));
    }
    let place = |function: &str, found: &Fault| {
        let mut shown = fault(found);
        shown["in"] = json!(function);
        shown
    };
    let map = trial.map_fault.as_ref().map(|found| place("map", found));
    let error = map.or_else(|| trial.reduce_fault.as_ref().map(|found| place("reduce", found)));
    append(&mut out, br#","error":"#, &error);
    out.push(b'}');
    out
}

fn fault(fault: &Fault) -> Value {
    json!({ "message": fault.message, "line": fault.line, "column": fault.column })
}

fn append(out: &mut Vec<u8>, before: &[u8], value: &impl serde::Serialize) {
    out.extend_from_slice(before);
    // Writing plain values to memory cannot fail.
    let _ = serde_json::to_writer(out, value);
}
