//! `POST /_diwan/sample`: makes a database with sample data.

mod library;
mod persons;

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::server::Couch;
use diwan_store::Collection;
use serde_json::{Value, json};
use std::sync::Arc;

/// How many persons are made, and at most.
const DEFAULT_PERSONS: u64 = 1000;
const MOST_PERSONS: u64 = 1_000_000;

/// Makes the database and fills it.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    request.require_json()?;
    let body = request.read_object()?;
    let text = |name: &str| match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(Error::bad_request(format!("`{name}` must be a string."))),
    };
    let name = text("name")?.unwrap_or_default();
    let database = text("db")?.unwrap_or(name);
    let count = match body.get("count") {
        None | Some(Value::Null) => DEFAULT_PERSONS,
        Some(count) => count
            .as_u64()
            .filter(|count| (1..=MOST_PERSONS).contains(count))
            .ok_or_else(|| Error::bad_request(format!("`count` must be from 1 to {MOST_PERSONS}.")))?,
    };
    let fill: &dyn Fn(&Couch, &Arc<Collection>) -> Result<()> = match name {
        "persons" => &move |_, collection| persons::fill(collection, count),
        "library" => &library::fill,
        _ => return Err(Error::bad_request("`name` must be `persons` or `library`.")),
    };
    let couch = request.couch.clone();
    let collection = empty_database(&couch, database)?;
    fill(&couch, &collection)?;
    Ok(Response::json(201, &json!({ "db": database, "documents": collection.count() })))
}

/// Creates the database. An empty one may exist already.
fn empty_database(couch: &Couch, name: &str) -> Result<Arc<Collection>> {
    match couch.create_database(name) {
        Err(error) if error.status == 412 => {
            let found = couch.find_database(name)?;
            if found.count() == 0 { Ok(found) } else { Err(error) }
        }
        other => other,
    }
}
