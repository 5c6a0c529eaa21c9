//! `POST /_diwan/follow/changes`: a part of a collection's change log, with the documents.

use super::{PART, answer, collection, number, read, settle};
use crate::error::Result;
use crate::http::{Request, Response};
use diwan_value::doc;

/// Answers with the next part: a document that describes it, and the changed documents.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let couch = request.couch.clone();
    let asked = read(request)?;
    let collection = collection(&couch, asked.as_doc())?;
    let part = collection.export(number(asked.as_doc(), "since")?, PART)?;
    settle(&couch)?;
    let head = doc! { "last": part.last as i64, "isEnd": part.is_end, "hasGap": part.has_gap };
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&part.bytes);
    Ok(answer(bytes))
}
