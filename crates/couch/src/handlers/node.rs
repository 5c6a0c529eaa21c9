//! `/_node/{node}/…`: the server as its own administrator sees it.

use super::membership::NODE;
use crate::COUCHDB_VERSION;
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_script::collate;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// A path that names no node.
pub fn unnamed(_: &mut Request) -> Result<Response> {
    Err(Error::bad_request("Incomplete path to _node request"))
}

/// What there is not below a node.
pub fn missing(request: &mut Request) -> Result<Response> {
    check(request)?;
    Err(Error::missing())
}

/// Refuses a name that is not this node's.
pub fn check(request: &Request) -> Result<()> {
    match request.param("node") {
        "_local" | NODE => Ok(()),
        _ => Err(Error::not_found("no such node: ".to_owned() + request.param("node"))),
    }
}

/// The node's name.
pub fn name(request: &mut Request) -> Result<Response> {
    check(request)?;
    Ok(Response::json(200, &json!({ "name": NODE })))
}

/// Counters, in the shape of CouchDB's; with a path, what lies under it.
pub fn stats(request: &mut Request) -> Result<Response> {
    check(request)?;
    Ok(Response::json(200, &select(request)))
}

fn select(request: &Request) -> Value {
    let couch = &request.couch;
    let counter = |value: u64, desc: &str| json!({ "value": value, "type": "counter", "desc": desc });
    let requests = counter(couch.requests.load(Ordering::Relaxed), "number of HTTP requests");
    let mut all = json!({
        "couchdb": {
            "httpd": { "requests": requests },
            "open_databases": counter(couch.databases().len() as u64, "number of open databases"),
            "uptime": counter(couch.started.elapsed().as_secs(), "seconds since the server was started")
        },
        "httpd": { "requests": requests }
    });
    for part in request.param("rest").split('/').filter(|part| !part.is_empty()) {
        // As in CouchDB, what there is not is null.
        all = all.get_mut(part).map(Value::take).unwrap_or_default();
    }
    all
}

/// What the process takes of the machine.
pub fn system(request: &mut Request) -> Result<Response> {
    check(request)?;
    let stats = request.couch.store.engine().stats();
    Ok(Response::json(
        200,
        &json!({
            "uptime": request.couch.started.elapsed().as_secs(),
            "memory": { "cache": stats.cache_bytes, "writes": stats.memtable_bytes },
            "disk": { "bytes": stats.disk_bytes, "journal_bytes": stats.journal_bytes }
        }),
    ))
}

/// What `/metrics` tells.
pub fn prometheus(request: &mut Request) -> Result<Response> {
    check(request)?;
    let (status, text) = (request.couch.config.extra)("/metrics").ok_or_else(Error::missing)?;
    Ok(Response::new(status, "text/plain; version=2.0", text))
}

/// Versions of what the server is made of.
pub fn versions(request: &mut Request) -> Result<Response> {
    check(request)?;
    Ok(Response::json(
        200,
        &json!({
            "couchdb": { "version": COUCHDB_VERSION },
            "diwan": { "version": request.couch.config.version },
            "collation_driver": {
                "name": "icu4x",
                "library_version": collate::VERSION,
                "collator_version": collate::VERSION
            },
            "javascript_engine": { "name": "quickjs" }
        }),
    ))
}
