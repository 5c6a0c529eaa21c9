//! `/_node/{node}/_config`: the settings under CouchDB's names. They are read-only here and set by flags and the
//! configuration file.

use super::node;
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use serde_json::{Value, json};

fn settings(request: &Request) -> Value {
    let config = &request.couch.config;
    json!({
        "chttpd": {
            "enable_cors": (!config.cors_origins.is_empty()).to_string(),
            "max_http_request_size": config.max_request_bytes.to_string()
        },
        "cors": { "credentials": "true", "origins": config.cors_origins.join(",") },
        "couchdb": {
            "max_document_size": config.max_document_bytes.to_string(),
            "uuid": request.couch.uuid
        },
        "query_servers": { "javascript": "built in" },
        "uuids": { "algorithm": "sequential", "max_count": "1000" },
        "vendor": { "name": "Diwan", "version": config.version }
    })
}

/// Returns all sections.
pub(crate) fn all(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    Ok(Response::json(200, &settings(request)))
}

/// Returns a section; an unknown one is empty.
pub(crate) fn section(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    let settings = settings(request);
    Ok(Response::json(200, settings.get(request.param("section")).unwrap_or(&json!({}))))
}

/// Does nothing: settings only change at a restart.
pub(crate) fn reload(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    Ok(Response::ok(200))
}

fn find(request: &Request) -> Result<Value> {
    let mut settings = settings(request);
    let section = settings.get_mut(request.param("section"));
    let value = section.and_then(|section| section.get_mut(request.param("key"))).map(Value::take);
    value.ok_or_else(|| Error::not_found("unknown_config_value"))
}

/// Returns one setting.
pub(crate) fn key(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    Ok(Response::json(200, &find(request)?))
}

/// Refuses a change: settings cannot be changed over HTTP.
pub(crate) fn refuse(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    if request.method == hyper::Method::DELETE {
        find(request)?;
    }
    Err(Error::forbidden(
        "Settings are changed with flags of `diwan serve` or in its configuration file, and take effect at a restart",
    ))
}
