//! `POST /{db}`: creates a document, with its own id or a generated one.

use super::store;
use crate::edit::{Context, Draft, Named};
use crate::error::Result;
use crate::http::{Request, Response};

/// Creates the document.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    let body = request.read_body()?;
    let couch = request.couch.clone();
    let context = Context {
        couch: &couch,
        collection: &collection,
        max_bytes: couch.max_document_bytes(),
        replicated: super::is_replicated(request),
    };
    let draft = Draft::read(&context, &body, None, &Named::default(), || couch.new_id(), None)?;
    store(request, &collection, draft, 201)
}
