//! `POST /{db}/_purge`: revisions that are to be as if they had never been.

use crate::document::{Rev, check_new, parse_id, parse_list};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_kv::Batch;
use diwan_store::{Collection, Revision};
use diwan_value::Value as Bson;
use serde_json::{Map, Value, json};

/// The setting that counts purged documents.
const SETTING: &str = "purge_seq";
/// How many documents one request may name, and how many revisions.
const MOST_DOCUMENTS: usize = 100;
const MOST_REVISIONS: usize = 1000;

/// How many documents were purged of a database.
pub fn count(collection: &Collection) -> i64 {
    collection.setting(SETTING).and_then(|value| value.as_value().as_i64_exact()).unwrap_or(0)
}

/// Purges leaves of documents' trees of revisions.
pub fn post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    let wanted = request.read_object()?;
    let wanted = wanted
        .iter()
        .map(|(id, revs)| {
            check_new(&collection, id)?;
            Ok((id, parse_list(revs)?))
        })
        .collect::<Result<Vec<(&String, Vec<Rev>)>>>()?;
    if wanted.len() > MOST_DOCUMENTS {
        return Err(Error::bad_request("Exceeded maximum number of documents."));
    }
    if wanted.iter().map(|(_, revs)| revs.len()).sum::<usize>() > MOST_REVISIONS {
        return Err(Error::bad_request("Exceeded maximum number of revisions."));
    }
    let mut purged = Map::new();
    let mut documents = 0;
    for (id, revs) in wanted {
        let own: Vec<Revision> = revs.iter().filter_map(Rev::own).collect();
        // What can be no document's id has nothing to purge.
        let gone = match parse_id(id) {
            Ok(id) if !own.is_empty() => collection.purge(&id.key, &own)?,
            _ => Vec::new(),
        };
        documents += i64::from(!gone.is_empty());
        let gone: Vec<Value> = gone.iter().map(|revision| json!(revision.to_string())).collect();
        purged.insert(id.clone(), Value::Array(gone));
    }
    if documents > 0 {
        let _counting = request.couch.purge_counts.lock();
        collection.set_setting(SETTING, Some(Bson::Int64(count(&collection) + documents)))?;
    }
    let engine = request.couch.store.engine();
    engine.wait_durable(engine.commit(Batch::new())?)?;
    Ok(Response::json(201, &json!({ "purge_seq": null, "purged": purged })))
}
