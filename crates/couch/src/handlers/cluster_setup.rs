//! `/_cluster_setup`: what CouchDB asks for before it is used. A Diwan is a single node from its first start.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::names;
use serde_json::{Map, Value, json};

/// How far it is: done.
pub fn get(_request: &mut Request) -> Result<Response> {
    Ok(Response::json(200, &json!({ "state": "single_node_enabled" })))
}

/// Does a step of it.
pub fn post(request: &mut Request) -> Result<Response> {
    request.require_json()?;
    let Ok(body) = request.read_object() else {
        return Err(Error::bad_request("Missing JSON body'"));
    };
    match body.get("action").and_then(Value::as_str) {
        Some("enable_single_node") => {
            refuse_settings(&body)?;
            create(request, &body)?;
        }
        Some("finish_cluster") => {
            if create(request, &body)? == 0 {
                return Err(Error::bad_request("Cluster is already finished"));
            }
        }
        Some("enable_cluster") => {
            return Err(Error::not_implemented("This server is a node by itself and joins no cluster"));
        }
        Some("add_node" | "remove_node" | "receive_cookie") => {
            return Err(Error::bad_request("Cluster is not enabled."));
        }
        _ => return Err(Error::bad_request("Invalid Action'")),
    }
    Ok(Response::ok(201))
}

/// Refuses what would have to be remembered: an administrator, and where the server listens.
fn refuse_settings(body: &Map<String, Value>) -> Result<()> {
    let given = |name: &str| body.get(name).is_some_and(|value| !value.is_null());
    if ["username", "password", "password_hash"].iter().any(|name| given(name)) {
        return Err(Error::not_implemented("There are no users yet, so no administrator can be made"));
    }
    match ["bind_address", "port"].into_iter().find(|name| given(name)) {
        Some(name) => Err(Error::forbidden(format!(
            "`{name}` is not set here: --http, a flag of `diwan serve`, says where the server listens"
        ))),
        None => Ok(()),
    }
}

/// Creates the databases of `ensure_dbs_exist` that are not there yet; how many.
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
        // A system database is there once it is asked for.
        if request.couch.database(name).is_err() {
            request.couch.create_database(name)?;
            created += 1;
        }
    }
    Ok(created)
}

fn bad_list() -> Error {
    Error::bad_request("`ensure_dbs_exist` must be an array of names of databases")
}
