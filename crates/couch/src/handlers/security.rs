//! `/{db}/_security`: who may do what with a database. Stored and answered; there are no users yet.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_store::Collection;
use diwan_value::Value as Bson;
use diwan_value::json::{self, Limits, Mode};
use serde_json::Value;

/// The setting that holds the object.
const SETTING: &str = "security";

/// The object of a database whose own was never set.
const DEFAULT: &[u8] = br#"{"members":{"roles":["_admin"]},"admins":{"roles":["_admin"]}}"#;

/// The object as JSON: as clients and functions see it.
pub fn text(collection: &Collection) -> Vec<u8> {
    match collection.setting(SETTING).as_ref().map(|value| value.as_value()) {
        Some(Bson::Document(object)) => {
            let mut text = Vec::new();
            json::write_document(&mut text, object, Mode::Exchange);
            text
        }
        _ => DEFAULT.to_vec(),
    }
}

/// The object.
pub fn get(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    Ok(Response::json_text(200, text(&collection)))
}

/// Replaces it.
pub fn put(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    if request.param("db") == "_users" {
        return Err(Error::forbidden("You can't edit the security object of the user database."));
    }
    let object = request.read_object()?;
    for group in ["admins", "members", "readers"] {
        match object.get(group) {
            None => {}
            Some(Value::Object(group)) => {
                for list in ["names", "roles"] {
                    check_list(group.get(list), list)?;
                }
            }
            Some(_) => return Err(Error::bad_request(format!("{group} must be a JSON object"))),
        }
    }
    let text = Value::Object(object).to_string();
    let stored = json::parse_document(text.as_bytes(), Limits::default())?;
    let commit = collection.set_setting(SETTING, Some(Bson::Document(stored.as_doc())))?;
    Ok(Response::ok(200).after(Some(commit)))
}

fn check_list(list: Option<&Value>, name: &str) -> Result<()> {
    match list {
        None => Ok(()),
        Some(Value::Array(list)) if list.iter().all(Value::is_string) => Ok(()),
        Some(_) => Err(Error::bad_request(format!("{name} must be a JSON list of strings"))),
    }
}
