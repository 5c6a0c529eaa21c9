//! `/_node/{node}/…`: statistics and versions of the server.

use crate::COUCHDB_VERSION;
use crate::NODE;
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_script::collate;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// Answers a path without a node.
pub(crate) fn unnamed(_: &mut Request) -> Result<Response> {
    Err(Error::bad_request("Incomplete path to _node request"))
}

/// Answers an unknown path below a node.
pub(crate) fn missing(request: &mut Request) -> Result<Response> {
    check(request)?;
    Err(Error::missing())
}

/// Refuses the name of another node.
pub(crate) fn check(request: &Request) -> Result<()> {
    match request.param("node") {
        "_local" | "nonode@nohost" | NODE => Ok(()),
        _ => Err(Error::not_found("no such node: ".to_owned() + request.param("node"))),
    }
}

/// Returns the node's name.
pub(crate) fn name(request: &mut Request) -> Result<Response> {
    check(request)?;
    Ok(Response::json(200, &json!({ "name": NODE })))
}

/// Returns counters in CouchDB's structure, or the part that the path selects.
pub(crate) fn stats(request: &mut Request) -> Result<Response> {
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
        // As in CouchDB, unknown parts are null.
        all = all.get_mut(part).map(Value::take).unwrap_or_default();
    }
    all
}

/// Returns the process's memory and disk usage.
pub(crate) fn system(request: &mut Request) -> Result<Response> {
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

/// Returns the metrics of `/metrics`.
pub(crate) fn prometheus(request: &mut Request) -> Result<Response> {
    check(request)?;
    let (status, text) = (request.couch.config.extra)("/metrics").ok_or_else(Error::missing)?;
    Ok(Response::new(status, "text/plain; version=2.0", text))
}

/// Returns the versions of the server's components.
pub(crate) fn versions(request: &mut Request) -> Result<Response> {
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
