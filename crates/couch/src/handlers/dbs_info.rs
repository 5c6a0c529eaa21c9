//! `/_dbs_info`: what `GET /{db}` tells, of many databases.

use super::{all_dbs, database};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use serde_json::{Value, json};

/// How many databases one request may name.
const MOST: usize = 100;

/// Of those that the parameters choose.
pub fn get(request: &mut Request) -> Result<Response> {
    let names = all_dbs::select(request)?;
    describe(request, &names.into_iter().map(Value::String).collect::<Vec<_>>())
}

/// Of those in `keys`.
pub fn post(request: &mut Request) -> Result<Response> {
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
            // What is no string names no database.
            let name = key.as_str().unwrap_or_default();
            Ok(match request.couch.database(name) {
                Ok(collection) => json!({ "key": key, "info": database::info(name, &collection)? }),
                Err(_) => json!({ "key": key, "error": "not_found" }),
            })
        })
        .collect::<Result<Vec<Value>>>()?;
    Ok(Response::json(200, &Value::Array(rows)))
}
