//! `PUT /{db}/{doc}`: stores a document as JSON or as `multipart/related` with attachments.

use super::{id_of, is_replicated, store};
use crate::edit::{Context, Draft, Named};
use crate::error::{Error, Result};
use crate::http::multipart::Multipart;
use crate::http::{Request, Response};
use hyper::header::CONTENT_TYPE;
use std::io::{self, Read};

/// Stores the document.
pub(crate) fn put(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let id = id_of(request);
    let named = Named::of(request)?;
    let couch = request.couch.clone();
    let context = Context {
        couch: &couch,
        collection: &collection,
        max_bytes: couch.max_document_bytes(),
        replicated: is_replicated(request),
    };
    let kind = request.header(CONTENT_TYPE).unwrap_or_default().to_owned();
    let draft = if request.content_type().as_deref() == Some("multipart/related") {
        let limit = request.couch.max_request_bytes();
        let mut body = request.take_body();
        let draft = read_parts(&context, &mut body, &kind, &id, &named, limit)?;
        // Read unused parts too, up to a limit, so that the client finishes sending.
        io::copy(&mut body.take(limit as u64), &mut io::sink())?;
        draft
    } else {
        let body = request.read_body()?;
        Draft::read(&context, &body, Some(&id), &named, String::new, None)?
    };
    let status = if draft.deleted { 200 } else { 201 };
    store(request, &collection, draft, status)
}

fn read_parts(
    context: &Context<'_>,
    body: &mut dyn Read,
    kind: &str,
    id: &str,
    named: &Named,
    limit: usize,
) -> Result<Draft> {
    let mut parts = Multipart::of_type(body, kind)?;
    let headers = parts.next_part()?.ok_or_else(|| Error::bad_request("The multipart body has no part"))?;
    if headers.media_type().as_deref() != Some("application/json") {
        return Err(Error::bad_content_type("Content-Type must be application/json"));
    }
    let json = parts.read_part(limit)?;
    let json = json.ok_or_else(|| Error::too_large("the request entity is too large"))?;
    Draft::read(context, &json, Some(id), named, String::new, Some(&mut parts))
}
