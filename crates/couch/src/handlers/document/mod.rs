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
pub use get::get;
pub use patch::patch;
pub use post::post;
pub use put::put;

use crate::document::{Draft, IdKey, Rev, edit_one, location};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::mango;
use diwan_store::{Collection, ReadView, RevisedDocument};
use diwan_value::json::write_string;
use hyper::header::{ETAG, IF_NONE_MATCH, LOCATION};
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

/// The answer to who has this already, if the request says so.
pub(super) fn not_modified(request: &Request, tag: &str) -> Option<Response> {
    let known = request.header(IF_NONE_MATCH)?;
    let has_it = known
        .split(',')
        .map(|known| known.trim())
        .map(|known| known.strip_prefix("W/").unwrap_or(known))
        .any(|known| known.strip_prefix('"').and_then(|known| known.strip_suffix('"')) == Some(tag));
    has_it.then(|| {
        let mut response = Response::new(304, "application/json", "");
        response.headers.clear();
        response.with_header(ETAG, format!("\"{tag}\""))
    })
}

/// Stores one document; the answer says what became of it, when that is durable.
pub(super) fn store(
    request: &Request,
    collection: &Arc<Collection>,
    draft: Draft,
    status: u16,
) -> Result<Response> {
    let is_batch = request.query.get("batch") == Some("ok");
    let written = edit_one(&request.couch, collection, draft)?;
    if written.id.starts_with("_design/") {
        mango::follow_soon(&request.couch, collection);
    }
    if is_batch {
        let mut text = br#"{"ok":true,"id":"#.to_vec();
        write_string(&mut text, &written.id);
        text.push(b'}');
        return Ok(Response::json_text(202, text));
    }
    let url = location(request, &[request.param("db"), &written.id]);
    let response = Response::json_text(status, written.to_json());
    Ok(response.with_header(LOCATION, url).with_etag(&written.rev).after(written.commit))
}

/// Whether the edits that a request brings were made elsewhere.
pub(super) fn is_replicated(request: &Request) -> bool {
    request.query.get("new_edits") == Some("false")
}
