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
    describe(request, &names)
}

/// Of those in `keys`.
pub fn post(request: &mut Request) -> Result<Response> {
    request.require_json()?;
    let object = request.read_object()?;
    let Some(Value::Array(keys)) = object.get("keys") else {
        return Err(Error::bad_request("`keys` member must exist."));
    };
    if keys.len() > MOST {
        return Err(Error::bad_request(format!(
            "`keys` has {} names; at most {MOST} are allowed",
            keys.len()
        )));
    }
    let names = keys
        .iter()
        .map(|key| {
            key.as_str()
                .map(str::to_owned)
                .ok_or_else(|| Error::bad_request("`keys` must be an array of strings"))
        })
        .collect::<Result<Vec<_>>>()?;
    describe(request, &names)
}

fn describe(request: &Request, names: &[String]) -> Result<Response> {
    let rows = names
        .iter()
        .map(|name| {
            Ok(match request.couch.database(name) {
                Ok(collection) => json!({ "key": name, "info": database::info(name, &collection)? }),
                Err(_) => json!({ "key": name, "error": "not_found" }),
            })
        })
        .collect::<Result<Vec<Value>>>()?;
    Ok(Response::json(200, &Value::Array(rows)))
}
