//! `POST /_diwan/follow/blob`: the stored bytes of an attachment.

use super::{binary, collection, malformed, number, read};
use crate::error::{Error, Result};
use crate::http::{BSON, Flow, Request, Response};
use diwan_store::blob::{Attachment, BlobForm, BlobId};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};

/// Sends the bytes.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let couch = request.couch.clone();
    let asked = read(request)?;
    let doc = asked.as_doc();
    let collection = collection(&couch, doc)?;
    let length = number(doc, "length")?;
    let attachment = stored(BlobId(binary(doc, "blob")?.try_into().map_err(|_| malformed())?), length);
    let reader = collection.read_blob(&attachment, BlobForm::Stored, None)?;
    let mut reader = Some(reader.ok_or_else(|| Error::not_found("missing"))?);
    let response = Response::rows(move |out| {
        if let Some(reader) = reader.take() {
            out.splice(reader);
        }
        Ok(Flow::Done)
    });
    Ok(response.with_header(CONTENT_TYPE, BSON).with_header(CONTENT_LENGTH, length.to_string()))
}

/// The attachment that a blob is, for reading its stored bytes.
fn stored(blob: BlobId, length: u64) -> Attachment {
    Attachment {
        name: String::new(),
        content_type: String::new(),
        length,
        encoded_length: length,
        encoding: None,
        md5: [0; 16],
        revpos: 0,
        blob,
    }
}
