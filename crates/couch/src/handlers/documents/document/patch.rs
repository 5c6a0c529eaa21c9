//! `PATCH /{db}/{doc}`: updates a document with MongoDB's update operators. CouchDB has no such endpoint.
//!
//! The body is an object of operators (`{"$set": …}`) or an aggregation pipeline. With a revision (`rev` or
//! `If-Match`) the update applies to that revision or fails with a conflict; without one it applies to the current
//! revision.

use super::{id_of, without_id};
use crate::document::{Attaching, location, parse_id};
use crate::edit::{Author, Draft, Named, edit_one};
use crate::error::{Error, Result};
use crate::http::{Request, Response, blocking};
use crate::users;
use diwan_query::Interrupt;
use diwan_query::expr::Context;
use diwan_query::filter::FilterEnv;
use diwan_query::update::{Update, UpdateEnv};
use diwan_store::{Base, RevisedDocument};
use diwan_value::json::{self, Limits};
use diwan_value::{DocBuf, Value};
use hyper::header::LOCATION;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// How often an update without a revision is retried after concurrent changes.
const ATTEMPTS: usize = 100;

/// Updates the document.
pub(crate) fn patch(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    let named = Named::of(request)?.one()?;
    let text = id_of(request);
    users::require_whole(request, &collection, &text)?;
    let id = parse_id(&text)?;
    let body = request.read_body()?;
    let body = json::parse_value(&body, Limits::default())?;
    let is_pipeline = matches!(body.as_value(), Value::Array(_));
    let is_update = is_pipeline
        || match body.as_value() {
            Value::Document(operators) => {
                !operators.is_empty() && operators.iter().all(|element| element.key.first() == Some(&b'$'))
            }
            _ => false,
        };
    if !is_update {
        return Err(Error::bad_request(
            "Request body must be an object of update operators or an array of stages",
        ));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let context = Arc::new(Context {
        now,
        cluster_time: None,
        user_roles: None,
        variables: Vec::new(),
        collator: collection.schema().options.collator.clone(),
        interrupt: Interrupt::new(),
    });
    let filter = FilterEnv::new(context.clone());
    let update =
        Update::parse(body.as_value(), &UpdateEnv { filter: &filter, array_filters: None, multi: false })?;
    if update.needs_array_index() {
        return Err(Error::bad_request(
            "The positional operator needs a filter, which a PATCH does not have",
        ));
    }
    // Optimistic concurrency: compute the update without a lock and retry on a conflict.
    for _ in 0..ATTEMPTS {
        let view = collection.view();
        let found = view.document(&id.key)?.ok_or_else(Error::missing)?;
        if found.deleted {
            return Err(Error::deleted());
        }
        if named.as_ref().is_some_and(|rev| rev.own() != Some(found.revision)) {
            return Err(Error::conflict());
        }
        // As with MongoDB, an update that changes nothing creates no revision.
        let apply = || update.apply(found.doc.as_doc(), None, &context);
        // Pipeline expressions may run long, operators do not.
        let changed = if is_pipeline { blocking(apply)? } else { apply()? };
        let Some(changed) = changed else {
            return Ok(answer(request, &text, &found.revision.to_string(), 200));
        };
        let draft = draft(&collection, &text, &found, &changed)?;
        match edit_one(&request.couch, &collection, &Author::of(request), draft) {
            Ok(written) => {
                return Ok(answer(request, &written.id, &written.rev, 201).after(written.commit));
            }
            Err(error) if error.status == 409 && named.is_none() => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::conflict())
}

fn draft(
    collection: &Arc<diwan_store::Collection>,
    id: &str,
    found: &RevisedDocument,
    changed: &DocBuf,
) -> Result<Draft> {
    let mut attaching = Attaching::default();
    for attachment in &found.attachments {
        attaching.keep(collection, attachment.clone())?;
    }
    Draft::new(
        id.to_owned(),
        Some(Base::Leaf(found.revision)),
        false,
        without_id(changed.as_doc()),
        attaching,
    )
}

fn answer(request: &Request, id: &str, rev: &str, status: u16) -> Response {
    let url = location(request, &[request.param("db"), id]);
    Response::json(status, &serde_json::json!({ "ok": true, "id": id, "rev": rev }))
        .with_header(LOCATION, url)
        .with_etag(rev)
}
