//! `/{db}`: a database as a whole.

use super::purge;
use crate::document::location;
use crate::error::{Error, Result};
use crate::http::{Query, Request, Response};
use crate::names;
use crate::partition;
use crate::sequence;
use diwan_store::Collection;
use diwan_value::Value as Bson;
use hyper::header::LOCATION;
use serde_json::{Value, json};

/// What there is to know of it.
pub fn get(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    Ok(Response::json(200, &info(request.param("db"), &collection)?))
}

/// Creates it.
pub fn put(request: &mut Request) -> Result<Response> {
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

/// Refuses what could be no database's shards, though all have one, and no storage engine's name.
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

/// Deletes it with all that is in it.
pub fn delete(request: &mut Request) -> Result<Response> {
    if request.query.get("rev").is_some() {
        return Err(Error::bad_request(
            "You tried to DELETE a database with a ?=rev parameter. Did you mean to DELETE a document instead?",
        ));
    }
    let collection = request.database()?;
    request.couch.store.drop_collection(&collection.namespace())?;
    Ok(Response::ok(200))
}

/// What tells a database from one of the same name that was deleted: when it was created. Replicators compare it.
pub fn instance_start_time(collection: &Collection) -> String {
    collection.created().unwrap_or(0).to_string()
}

/// The description of a database. Attachments are counted when it is asked for first.
pub fn info(name: &str, collection: &Collection) -> Result<Value> {
    let bytes = collection.data_bytes() + collection.blob_totals()?.bytes;
    let props =
        if partition::is_partitioned(collection) { json!({ "partitioned": true }) } else { json!({}) };
    Ok(json!({
        "instance_start_time": instance_start_time(collection),
        "db_name": name,
        "purge_seq": purge::count(collection).to_string(),
        "update_seq": sequence::text(collection, collection.last_sequence()),
        "sizes": { "file": bytes, "external": bytes, "active": bytes },
        "props": props,
        "doc_del_count": collection.deleted_count(),
        "doc_count": collection.count(),
        "disk_format_version": 8,
        "compact_running": false,
        "cluster": { "q": 1, "n": 1, "w": 1, "r": 1 }
    }))
}
