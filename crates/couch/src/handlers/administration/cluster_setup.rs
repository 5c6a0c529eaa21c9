//! `/_cluster_setup`: CouchDB's setup wizard. Diwan is a configured single node from its first start.

use super::admins;
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::names;
use serde_json::{Map, Value, json};

/// Reports that setup is complete.
pub(crate) fn get(_request: &mut Request) -> Result<Response> {
    Ok(Response::json(200, &json!({ "state": "single_node_enabled" })))
}

/// Performs a setup step.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    request.require_json()?;
    let Ok(body) = request.read_object() else {
        return Err(Error::bad_request("Missing JSON body'"));
    };
    match body.get("action").and_then(Value::as_str) {
        Some("enable_single_node") => {
            refuse_address(&body)?;
            make_administrator(request, &body)?;
            create(request, &body)?;
        }
        Some("finish_cluster") => {
            if create(request, &body)? == 0 {
                return Err(Error::bad_request("Cluster is already finished"));
            }
        }
        Some("enable_cluster") => {
            return Err(Error::not_implemented("This server is a single node and cannot join a cluster"));
        }
        Some("add_node" | "remove_node" | "receive_cookie") => {
            return Err(Error::bad_request("Cluster is not enabled."));
        }
        _ => return Err(Error::bad_request("Invalid Action'")),
    }
    Ok(Response::ok(201))
}

/// Makes the administrator that the step names, if any.
fn make_administrator(request: &Request, body: &Map<String, Value>) -> Result<()> {
    let text = |name: &str| match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(Error::bad_request(format!("`{name}` must be a string"))),
    };
    let password = text("password_hash")?.or(text("password")?);
    match (text("username")?, password) {
        (None, None) => Ok(()),
        (Some(name), Some(password)) => admins::set_up(&request.couch, name, password),
        _ => Err(Error::bad_request("An administrator needs both `username` and `password`")),
    }
}

/// Refuses the listening address, which only a flag sets.
fn refuse_address(body: &Map<String, Value>) -> Result<()> {
    let given = |name: &str| body.get(name).is_some_and(|value| !value.is_null());
    match ["bind_address", "port"].into_iter().find(|name| given(name)) {
        Some(name) => Err(Error::forbidden(format!(
            "`{name}` cannot be set here: use the flag --http of `diwan serve`"
        ))),
        None => Ok(()),
    }
}

/// Creates the missing databases of `ensure_dbs_exist`; returns how many.
fn create(request: &Request, body: &Map<String, Value>) -> Result<usize> {
    let names: Vec<&str> = match body.get("ensure_dbs_exist") {
        None => names::SYSTEM.to_vec(),
        Some(Value::Array(names)) => {
            names.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(bad_list)?
        }
        Some(_) => return Err(bad_list()),
    };
    let mut created = 0;
    for name in names {
        // Looking up a system database creates it, so it never counts as missing.
        if request.couch.find_database(name).is_err() {
            request.couch.create_database(name)?;
            created += 1;
        }
    }
    Ok(created)
}

fn bad_list() -> Error {
    Error::bad_request("`ensure_dbs_exist` must be an array of database names")
}
