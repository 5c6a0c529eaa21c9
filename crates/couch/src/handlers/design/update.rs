//! `/{db}/_design/{ddoc}/_update/{update}/{doc}`: a document changed by an update function.

use super::show;
use crate::design::{answer, request_object};
use crate::edit::{Author, Context, Draft, Named, edit_one};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_store::Collection;
use hyper::header::HeaderName;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;

const NEW_REVISION: HeaderName = HeaderName::from_static("x-couch-update-newrev");
const ID: HeaderName = HeaderName::from_static("x-couch-id");

/// Characters that are escaped when an id is put in a header.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-').remove(b':');

/// Answers a path without a function.
pub(crate) fn unnamed(_: &mut Request) -> Result<Response> {
    Err(Error::new(404, "update_error", "Invalid path."))
}

/// Calls the function and stores the document that it returns.
pub(crate) fn call(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let design = request.design(&collection)?;
    let body = request.read_body()?;
    let (doc, id) = show::document(request, &collection)?;
    let object = request_object(request, &collection, id.as_deref(), &body)?;
    let (written, text) = request.couch.scripts.update(&design, request.param("update"), &doc, &object)?;
    let Some(written) = written else { return answer(&text, 200) };
    let (id, rev) = store(request, &collection, &written)?;
    let id = utf8_percent_encode(&id, ESCAPED).to_string();
    Ok(answer(&text, 201)?.with_header(NEW_REVISION, rev).with_header(ID, id))
}

/// Stores the document; returns its id and new revision.
fn store(request: &Request, collection: &Arc<Collection>, text: &str) -> Result<(String, String)> {
    let couch = &request.couch;
    let context = Context { couch, collection, max_bytes: couch.max_document_bytes(), replicated: false };
    let draft = Draft::read(&context, text.as_bytes(), None, &Named::default(), String::new, None)?;
    let written = edit_one(couch, collection, &Author::of(request), draft)?;
    if let Some(commit) = written.commit {
        couch.store.engine().wait_durable(commit)?;
    }
    Ok((written.id, written.rev))
}
