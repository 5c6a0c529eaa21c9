//! `POST /{db}/_purge`: removes revisions without a trace.

use crate::document::{Rev, check_new, parse_id, parse_list};
use crate::edit::Author;
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::users;
use diwan_kv::Batch;
use diwan_store::Revision;
use diwan_value::Doc;
use serde_json::{Map, Value, json};

/// How many documents and how many revisions one request may name.
const MOST_DOCUMENTS: usize = 100;
const MOST_REVISIONS: usize = 1000;

/// Purges leaf revisions.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
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
        // An invalid id names no document.
        let is_user = users::is_users(&collection.namespace()) && !own.is_empty();
        let _turn = is_user.then(|| request.couch.access.begin_change());
        if is_user {
            let edited = users::Edited { id, deleted: true, body: Doc::EMPTY };
            users::check(&request.couch, &collection, &Author::of(request), &edited)?;
        }
        let gone = match parse_id(id) {
            Ok(id) if !own.is_empty() => collection.purge(&id.key, &own, &request.interrupt)?,
            _ => Vec::new(),
        };
        documents += i64::from(!gone.is_empty());
        let gone: Vec<Value> = gone.iter().map(|revision| json!(revision.to_string())).collect();
        purged.insert(id.clone(), Value::Array(gone));
    }
    if documents > 0 {
        request.couch.count_purged(&collection, documents)?;
    }
    let engine = request.couch.store.engine();
    engine.wait_durable(engine.commit(Batch::new())?)?;
    Ok(Response::json(201, &json!({ "purge_seq": null, "purged": purged })))
}
