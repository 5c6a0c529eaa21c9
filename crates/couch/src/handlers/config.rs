//! `/_node/{node}/_config`: the settings, under CouchDB's names. They are read here and set by flags and the
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

/// All sections.
pub fn all(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    Ok(Response::json(200, &settings(request)))
}

/// One section; one that there is not is empty.
pub fn section(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    let settings = settings(request);
    Ok(Response::json(200, settings.get(request.param("section")).unwrap_or(&json!({}))))
}

/// Reads again what is not flags, which is nothing.
pub fn reload(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    Ok(Response::ok(200))
}

fn find(request: &Request) -> Result<Value> {
    let mut settings = settings(request);
    let section = settings.get_mut(request.param("section"));
    let value = section.and_then(|section| section.get_mut(request.param("key"))).map(Value::take);
    value.ok_or_else(|| Error::not_found("unknown_config_value"))
}

/// One setting.
pub fn key(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    Ok(Response::json(200, &find(request)?))
}

/// Settings are not changed over HTTP.
pub fn refuse(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    if request.method == hyper::Method::DELETE {
        find(request)?;
    }
    Err(Error::forbidden(
        "Settings are flags of `diwan serve` or lines of its configuration file, and take effect at its next start",
    ))
}
