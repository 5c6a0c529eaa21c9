//! `/{db}/_design/{ddoc}/_show/{show}/{doc}`: a document as a function of its design document shows it.

use crate::design::{answer, request_object};
use crate::document::{Show, parse_id, write_doc};
use crate::error::Result;
use crate::http::{Request, Response};
use diwan_store::Collection;
use std::sync::Arc;

/// Calls the function.
pub fn call(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let design = request.design(&collection)?;
    let body = request.read_body()?;
    let (doc, id) = document(request, &collection)?;
    let object = request_object(request, &collection, id.as_deref(), &body);
    let text = request.couch.scripts.show(&design, request.param("show"), &doc, &object)?;
    answer(&text, 200)
}

/// The document that the path names, as JSON, and its id; `null` if there is none.
pub fn document(request: &Request, collection: &Arc<Collection>) -> Result<(String, Option<String>)> {
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
