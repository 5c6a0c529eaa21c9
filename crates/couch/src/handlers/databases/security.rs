//! `/{db}/_security`: the security object of a database, which gives users and roles rights on it.

use crate::database;
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::users;
use diwan_value::json::{self, Limits};
use serde_json::{Value, json};

/// Returns the object.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    Ok(Response::json_text(200, database::security(&collection)))
}

/// Replaces the object.
pub(crate) fn put(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let is_editable = request.couch.setting_flag("couchdb", "users_db_security_editable");
    if users::is_users(&collection.namespace()) && !is_editable {
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
    let commit = database::set_security(&collection, stored.as_doc())?;
    let details = json!({ "interface": "http", "database": request.param("db") });
    request.couch.access.audit.record("setSecurity", &request.caller, Some(request.peer), details);
    Ok(Response::ok(200).after(Some(commit)))
}

fn check_list(list: Option<&Value>, name: &str) -> Result<()> {
    match list {
        None => Ok(()),
        Some(Value::Array(list)) if list.iter().all(Value::is_string) => Ok(()),
        Some(_) => Err(Error::bad_request(format!("{name} must be a JSON list of strings"))),
    }
}
