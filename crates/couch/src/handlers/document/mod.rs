//! `/{db}/{doc}`: one document, and `POST /{db}`, which makes one. A file for each method.

pub(super) mod copy;
mod delete;
mod form;
pub(super) mod get;
mod patch;
mod post;
mod put;

pub use copy::copy;
pub use delete::delete;
pub use form::post as post_form;
pub use get::{DESIGN_PART, get, redirect};
pub use patch::patch;
pub use post::post;
pub use put::put;

use crate::document::{Draft, IdKey, Rev, edit_one, location};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::mango;
use diwan_store::{Collection, ReadView, RevisedDocument};
use diwan_value::json::write_string;
use hyper::Method;
use hyper::header::LOCATION;
use std::sync::Arc;

/// The id that the request's path names.
pub(super) fn id_of(request: &Request) -> String {
    match (request.param("ddoc"), request.param("local")) {
        ("", "") => request.param("doc").to_owned(),
        ("", local) => format!("_local/{local}"),
        (design, _) => format!("_design/{design}"),
    }
}

/// The revision that a request asks for; the winner if it names none.
pub(super) fn find(view: &ReadView, id: &IdKey, rev: Option<&Rev>) -> Result<RevisedDocument> {
    match rev {
        None => match view.document(&id.key)? {
            None => Err(Error::missing()),
            Some(doc) if doc.deleted => Err(Error::deleted()),
            Some(doc) => Ok(doc),
        },
        Some(rev) => {
            let found = rev.own().map(|revision| view.revision(&id.key, revision)).transpose()?;
            found.flatten().ok_or_else(Error::missing)
        }
    }
}

/// Stores one document; the answer says what became of it, when that is durable.
pub(super) fn store(
    request: &Request,
    collection: &Arc<Collection>,
    draft: Draft,
    status: u16,
) -> Result<Response> {
    if request.query.get("batch") == Some("ok") && matches!(request.method, Method::POST | Method::PUT) {
        return store_later(request, collection, draft);
    }
    let written = edit_one(&request.couch, collection, draft)?;
    if written.id.starts_with("_design/") {
        mango::follow_soon(&request.couch, collection);
    }
    let url = location(request, &[request.param("db"), &written.id]);
    let response = Response::json_text(status, written.to_json());
    Ok(response.with_header(LOCATION, url).with_etag(&written.rev).after(written.commit))
}

/// Stores a document of a client that does not ask what becomes of it: as in CouchDB, a conflict or a validation that
/// fails is told nowhere but in the log.
fn store_later(request: &Request, collection: &Arc<Collection>, draft: Draft) -> Result<Response> {
    let mut text = br#"{"ok":true,"id":"#.to_vec();
    write_string(&mut text, &draft.id);
    text.push(b'}');
    let is_design = draft.id.starts_with("_design/");
    match edit_one(&request.couch, collection, draft) {
        Ok(_) if is_design => mango::follow_soon(&request.couch, collection),
        Ok(_) => {}
        Err(error) if error.status < 500 => tracing::info!(%error, "a document of a batch was refused"),
        Err(error) => return Err(error),
    }
    Ok(Response::json_text(202, text))
}

/// Whether the edits that a request brings were made elsewhere.
pub(super) fn is_replicated(request: &Request) -> bool {
    request.query.get("new_edits") == Some("false")
}
