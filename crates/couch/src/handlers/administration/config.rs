//! `/_node/{node}/_config`: the settings under CouchDB's names. A change takes effect at once and outlives a restart.
//!
//! What a flag or the configuration file sets cannot be changed here. The section `admins` is not stored: it shows the
//! users who administer the server ([`super::admins`]).

use super::{admins, node};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::settings;
use serde_json::{Value, json};

/// The section of the administrators.
const ADMINS: &str = "admins";

/// Sections that could run programs in CouchDB, which refuses to change them over HTTP.
const CLOSED: [&str; 8] = [
    "daemons",
    "external",
    "httpd_db_handlers",
    "httpd_design_handlers",
    "httpd_global_handlers",
    "native_query_servers",
    "os_daemons",
    "query_servers",
];

fn all_sections(request: &Request) -> Result<Value> {
    let mut sections = json!(request.couch.all_settings());
    let admins = admins::list(&request.couch)?;
    if !admins.is_empty() {
        sections[ADMINS] = json!(admins);
    }
    Ok(sections)
}

/// Returns all sections.
pub(crate) fn all(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    Ok(Response::json(200, &all_sections(request)?))
}

/// Returns a section; an unknown one is empty.
pub(crate) fn section(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    let (name, _) = settings::canonical(request.param("section"), "");
    let section = all_sections(request)?.get_mut(name).map(Value::take);
    Ok(Response::json(200, &section.unwrap_or_else(|| json!({}))))
}

/// Does nothing: a change takes effect without it.
pub(crate) fn reload(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    Ok(Response::ok(200))
}

fn unknown() -> Error {
    Error::not_found("unknown_config_value")
}

fn find(request: &Request, section: &str, key: &str) -> Result<Option<String>> {
    match section {
        ADMINS => Ok(admins::list(&request.couch)?.remove(key)),
        _ => Ok(request.couch.setting(section, key)),
    }
}

/// Returns one setting.
pub(crate) fn key(request: &mut Request) -> Result<Response> {
    node::check(request)?;
    let value = find(request, request.param("section"), request.param("key"))?.ok_or_else(unknown)?;
    Ok(Response::json(200, &json!(value)))
}

/// Changes a setting; answers with the value before.
pub(crate) fn put(request: &mut Request) -> Result<Response> {
    let (section, key) = changed(request)?;
    let value = match request.read_json()? {
        Value::String(value) => value.trim().to_owned(),
        _ => return Err(Error::bad_request("A setting must be a JSON string")),
    };
    if section == ADMINS {
        let (old, commit) = admins::put(&request.couch, &key, &value)?;
        record(request, &section, &key);
        return Ok(Response::json(200, &json!(old)).after(commit));
    }
    settings::check(&section, &key, &value)?;
    let old = request.couch.setting(&section, &key).unwrap_or_default();
    let (_, commit) = request.couch.access.settings.set(&section, &key, Some(&value))?;
    record(request, &section, &key);
    Ok(Response::json(200, &json!(old)).after(commit))
}

/// Removes a setting, so that its default holds again; answers with the value before.
pub(crate) fn delete(request: &mut Request) -> Result<Response> {
    let (section, key) = changed(request)?;
    let old = find(request, &section, &key)?.ok_or_else(unknown)?;
    let commit = match section.as_str() {
        ADMINS => admins::delete(&request.couch, &key)?,
        _ => request.couch.access.settings.set(&section, &key, None)?.1,
    };
    record(request, &section, &key);
    Ok(Response::json(200, &json!(old)).after(commit))
}

/// The setting that a request changes. Fails if it cannot be changed over HTTP.
fn changed(request: &Request) -> Result<(String, String)> {
    node::check(request)?;
    let (section, key) = settings::canonical(request.param("section"), request.param("key"));
    if CLOSED.contains(&section) {
        return Err(Error::forbidden("Config section blacklisted for modification over HTTP API."));
    }
    if let Some(source) = request.couch.access.settings.fixed_by(section, key) {
        return Err(Error::forbidden(format!(
            "{section}/{key} is set by {source} and cannot be changed here"
        )));
    }
    Ok((section.to_owned(), key.to_owned()))
}

fn record(request: &Request, section: &str, key: &str) {
    let details =
        json!({ "interface": "http", "section": section, "key": key, "method": request.method.as_str() });
    request.couch.access.audit.record("setSetting", &request.caller, Some(request.peer), details);
}
