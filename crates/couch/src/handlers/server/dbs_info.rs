//! `/_dbs_info`: describes many databases.

use super::all_dbs;
use crate::auth::rights::{self, Needs};
use crate::database;
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_access::Action;
use serde_json::{Value, json};

/// How many databases one request may name.
const MOST: usize = 100;

/// Describes the databases that the parameters select.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let names = all_dbs::select(request)?;
    describe(request, &names.into_iter().map(Value::String).collect::<Vec<_>>())
}

/// Describes the databases in `keys`.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    request.require_json()?;
    let object = request.read_object()?;
    let keys = match object.get("keys") {
        None | Some(Value::Null) => return Err(Error::bad_request("`keys` member must exist.")),
        Some(Value::Array(keys)) => keys,
        Some(_) => return Err(Error::bad_request("`keys` member must be an array.")),
    };
    if keys.len() > MOST {
        return Err(Error::bad_request("too_many_keys"));
    }
    describe(request, keys)
}

fn describe(request: &Request, keys: &[Value]) -> Result<Response> {
    let rows = keys
        .iter()
        .map(|key| {
            // A key that is not a string names no database.
            let name = key.as_str().unwrap_or_default();
            if rights::check(&request.couch, &request.caller, Needs::Database(&[Action::Find]), name)
                .is_err_and(|error| error.status != 404)
            {
                return Ok(json!({ "key": key, "error": "forbidden" }));
            }
            Ok(match request.couch.find_database(name) {
                Ok(collection) => json!({ "key": key, "info": database::info(name, &collection)? }),
                Err(_) => json!({ "key": key, "error": "not_found" }),
            })
        })
        .collect::<Result<Vec<Value>>>()?;
    Ok(Response::json(200, &Value::Array(rows)))
}
