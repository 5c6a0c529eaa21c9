//! `/{db}/{doc}`: single documents, and `POST /{db}`, which creates one. One file per method.

mod copy;
mod delete;
mod form;
pub(super) mod get;
mod patch;
mod post;
mod put;

pub(crate) use copy::copy;
pub(crate) use delete::delete;
pub(crate) use form::post as post_form;
pub(crate) use get::{DESIGN_PART, get, redirect};
pub(crate) use patch::patch;
pub(crate) use post::post;
pub(crate) use put::put;

use crate::document::{IdKey, Rev, location};
use crate::edit::{Author, Draft, edit_one};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::mango;
use diwan_store::{Collection, ReadView, RevisedDocument};
use diwan_value::json::write_string;
use diwan_value::{Doc, DocBuf, DocBuilder};
use hyper::Method;
use hyper::header::LOCATION;
use std::sync::Arc;

/// Returns the id that the path names.
pub(super) fn id_of(request: &Request) -> String {
    match (request.param("ddoc"), request.param("local")) {
        ("", "") => request.param("doc").to_owned(),
        ("", local) => format!("_local/{local}"),
        (design, _) => format!("_design/{design}"),
    }
}

/// Returns the named revision, or the winner if none is named.
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

/// Stores a document and responds with the outcome, when the write is durable.
pub(super) fn store(
    request: &Request,
    collection: &Arc<Collection>,
    draft: Draft,
    status: u16,
) -> Result<Response> {
    if request.query.get("batch") == Some("ok") && matches!(request.method, Method::POST | Method::PUT) {
        return store_later(request, collection, draft);
    }
    let written = edit_one(&request.couch, collection, &Author::of(request), draft)?;
    if written.id.starts_with("_design/") {
        mango::follow_soon(&request.couch, collection);
    }
    let url = location(request, &[request.param("db"), &written.id]);
    let response = Response::json_text(status, written.to_json());
    Ok(response.with_header(LOCATION, url).with_etag(&written.rev).after(written.commit))
}

/// Stores a document with `batch=ok` without reporting the outcome: as in CouchDB, a conflict or failed validation is
/// only logged.
fn store_later(request: &Request, collection: &Arc<Collection>, draft: Draft) -> Result<Response> {
    let mut text = br#"{"ok":true,"id":"#.to_vec();
    write_string(&mut text, &draft.id);
    text.push(b'}');
    let is_design = draft.id.starts_with("_design/");
    match edit_one(&request.couch, collection, &Author::of(request), draft) {
        Ok(_) if is_design => mango::follow_soon(&request.couch, collection),
        Ok(_) => {}
        Err(error) if error.status < 500 => {
            tracing::info!(%error, "a document written with batch=ok was refused")
        }
        Err(error) => return Err(error),
    }
    Ok(Response::json_text(202, text))
}

/// Whether the request carries replicated edits.
pub(super) fn is_replicated(request: &Request) -> bool {
    request.query.get("new_edits") == Some("false")
}

/// Returns the document without `_id`.
pub(super) fn without_id(doc: Doc<'_>) -> DocBuf {
    let mut out = DocBuilder::with_buffer(Vec::with_capacity(doc.as_bytes().len()));
    for element in doc.iter().filter(|element| element.key != b"_id") {
        out.append_element(element);
    }
    out.finish()
}
