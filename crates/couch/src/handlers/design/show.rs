//! `/{db}/_design/{ddoc}/_show/{show}/{doc}`: a document formatted by a show function.

use crate::design::{answer, request_object};
use crate::document::{Show, parse_id, write_doc};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_script::Design;
use diwan_store::Collection;
use hyper::header::{ACCEPT, VARY};
use std::sync::Arc;

/// Calls the function.
pub(crate) fn call(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let design = request.design(&collection)?;
    let body = request.read_body()?;
    let (doc, id) = document(request, &collection)?;
    let tag = tag(request, &design, &doc);
    if let Some(response) = request.not_modified(&tag) {
        return Ok(response);
    }
    let object = request_object(request, &collection, id.as_deref(), &body)?;
    let text = request.couch.scripts.show(&design, request.param("show"), &doc, &object)?;
    // An `ETag` set by the function could only be compared after running it, so this one replaces it.
    Ok(answer(&text, 200)?.with_etag(&tag).with_header(VARY, "Accept"))
}

/// Answers a path without a function.
pub(crate) fn unnamed(_: &mut Request) -> Result<Response> {
    Err(Error::new(404, "show_error", "Invalid path."))
}

/// Hashes everything that the answer depends on: the design document, the document, and `Accept`.
fn tag(request: &Request, design: &Design, doc: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [design.text(), doc, request.header(ACCEPT).unwrap_or_default()] {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Returns the document in the path as JSON (`null` if there is none) and its id.
pub(crate) fn document(request: &Request, collection: &Arc<Collection>) -> Result<(String, Option<String>)> {
    let id = request.param("doc");
    if id.is_empty() {
        return Ok(("null".to_owned(), None));
    }
    let key = parse_id(id)?.key;
    let view = collection.view();
    let Some(found) = view.document(&key)?.filter(|found| !found.deleted) else {
        return Ok(("null".to_owned(), Some(id.to_owned())));
    };
    let mut out = Vec::new();
    write_doc(&mut out, &view, &key, &found, &Show { revs: true, conflicts: true, ..Show::default() })?;
    Ok((String::from_utf8_lossy(&out).into_owned(), Some(id.to_owned())))
}
