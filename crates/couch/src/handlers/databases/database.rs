//! `/{db}`: creates, describes and deletes databases.

use crate::database;
use crate::document::location;
use crate::error::{Error, Result};
use crate::http::{Query, Request, Response};
use crate::names;
use crate::partition;
use crate::users;
use diwan_value::Value as Bson;
use hyper::header::LOCATION;

/// Describes the database.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    Ok(Response::json(200, &database::info(request.param("db"), &collection)?))
}

/// Creates the database.
pub(crate) fn put(request: &mut Request) -> Result<Response> {
    let name = request.param("db").to_owned();
    check_shards(&request.query)?;
    let partitioned = match request.query.get("partitioned") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Error::bad_request("Invalid `partitioned` parameter")),
    };
    if partitioned && names::SYSTEM.contains(&name.as_str()) {
        return Err(Error::bad_request("Cannot partition a system database"));
    }
    let collection = request.couch.create_database(&name)?;
    if partitioned {
        let commit = collection.set_setting(partition::SETTING, Some(Bson::Boolean(true)))?;
        request.couch.store.engine().wait_durable(commit)?;
    }
    Ok(Response::ok(201).with_header(LOCATION, location(request, &[&name])))
}

/// Validates the sharding and storage engine parameters, which have no effect.
fn check_shards(query: &Query) -> Result<()> {
    let is_count = |text: &str| text.parse::<u64>().is_ok_and(|count| count > 0);
    for name in ["n", "q"] {
        if query.get(name).is_some_and(|text| !is_count(text)) {
            return Err(Error::bad_request(format!("The `{name}` value should be a positive integer.")));
        }
    }
    let is_rule = |rule: &str| {
        let mut parts = rule.split(':').filter(|part| !part.is_empty());
        matches!((parts.next(), parts.next(), parts.next()), (Some(_), Some(count), None) if is_count(count))
    };
    let is_placement =
        |text: &str| !text.is_empty() && text.split(',').filter(|rule| !rule.is_empty()).all(is_rule);
    if query.get("placement").is_some_and(|text| !is_placement(text)) {
        return Err(Error::bad_request("The `placement` value should be in a format `zone:n`."));
    }
    match query.get("engine") {
        None | Some("couch") => Ok(()),
        Some(_) => Err(Error::bad_request("invalid_engine_extension")),
    }
}

/// Deletes the database and everything in it.
pub(crate) fn delete(request: &mut Request) -> Result<Response> {
    if request.query.get("rev").is_some() {
        return Err(Error::bad_request(
            "You tried to DELETE a database with a ?=rev parameter. Did you mean to DELETE a document instead?",
        ));
    }
    let collection = request.couch.find_database(request.param("db"))?;
    if users::is_users(&collection.namespace()) {
        return Err(Error::forbidden(
            "The database of users cannot be deleted: delete its documents instead",
        ));
    }
    request.couch.store.drop_collection(&collection.namespace())?;
    Ok(Response::ok(200))
}
