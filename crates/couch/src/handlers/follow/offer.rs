//! `POST /_diwan/follow/offer`: documents that only a server has which joins again. They become conflicts, or documents.
//!
//! The body is a document that describes it, the bytes of attachments, and the documents.

use super::{LONGEST, answer, binary, collection, malformed, number};
use crate::error::{Error, Result};
use crate::http::{Body, Request, Response};
use diwan_store::blob::{BlobId, BlobSource, StagedBlob};
use diwan_store::replica::copy;
use diwan_value::{ArrayBuilder, DocBuf, DocBuilder, Value, doc};
use std::collections::HashMap;
use std::io::{self, Read};

/// The longest description.
const MOST: u32 = 16 << 20;

/// Stores the documents. Answers with those that could not be stored.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let couch = request.couch.clone();
    let mut body = request.take_body();
    let head = read_doc(&mut body)?;
    let collection = collection(&couch, head.as_doc())?;
    collection.keep_history()?;
    let mut blobs: HashMap<BlobId, StagedBlob> = HashMap::new();
    for one in head.as_doc().get_array("blobs").ok_or_else(malformed)?.iter() {
        let one = one.as_doc().ok_or_else(malformed)?;
        let is_packed = one.get("isPacked") == Some(Value::Boolean(true));
        let source = if is_packed { BlobSource::Packed } else { BlobSource::Plain };
        let (mut writer, length) = (collection.blob_writer(source)?, number(one, "length")?);
        if io::copy(&mut (&mut body).take(length), &mut writer)? != length {
            return Err(malformed());
        }
        blobs.insert(BlobId(binary(one, "id")?.try_into().map_err(|_| malformed())?), writer.finish()?);
    }
    let mut rest = Vec::new();
    (&mut body).take(LONGEST as u64 + 1).read_to_end(&mut rest)?;
    if rest.len() > LONGEST {
        return Err(Error::too_large("the request entity is too large"));
    }
    let mut documents = copy::parse(&rest)?;
    let attachments = documents.iter_mut().flat_map(|document| &mut document.leaves);
    for attachment in attachments.flat_map(|leaf| &mut leaf.attachments) {
        attachment.blob = blobs.get(&attachment.blob).ok_or_else(malformed)?.blob();
    }
    let (refused, commit) = collection.import(&documents, &request.interrupt)?;
    let mut listed = ArrayBuilder::new();
    for one in &refused {
        let id = Value::Binary { subtype: 0, bytes: &one.key };
        listed.push(doc! { "i": id, "id": &*one.id, "reason": one.error.to_string() });
    }
    let mut out = DocBuilder::new();
    out.append("refused", listed);
    Ok(answer(out.finish().into_bytes()).after(commit))
}

/// Reads one document, which states its own length.
fn read_doc(body: &mut Body) -> Result<DocBuf> {
    let mut length = [0; 4];
    body.read_exact(&mut length)?;
    let most = u32::from_le_bytes(length);
    if !(5..=MOST).contains(&most) {
        return Err(malformed());
    }
    let mut bytes = length.to_vec();
    body.take(u64::from(most) - 4).read_to_end(&mut bytes)?;
    DocBuf::validate(bytes).map_err(|_| malformed())
}
