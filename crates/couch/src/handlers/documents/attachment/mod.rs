//! `/{db}/{doc}/{name*}`: single attachments, streamed in both directions.

mod get;

pub(crate) use get::get;

use super::document::{find, id_of, without_id};
use crate::document::{Attaching, Rev, check_name, check_new, forget_length, location, parse_id, stream};
use crate::edit::{Author, Draft, Named, Written, edit_one};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::users;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use diwan_store::blob::THIS_EDIT;
use diwan_store::{Base, Collection, RevisedDocument};
use diwan_value::DocBuf;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use std::io::{self, Read};
use std::sync::Arc;

/// How much of a refused upload is read, so that the client finishes sending and reads the answer.
const HEARD_BYTES: u64 = 64 << 20;

/// Stores an attachment, replacing one of the same name.
pub(crate) fn put(request: &mut Request) -> Result<Response> {
    let answer = store(request);
    if answer.is_err() {
        // A failed read does not change the answer.
        let _ = io::copy(&mut request.take_body().into_raw().take(HEARD_BYTES), &mut io::sink());
    }
    answer
}

fn store(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let id = id_of(request);
    users::require_whole(request, &collection, &id)?;
    let name = request.param("name").to_owned();
    check_name(&name)?;
    let kind = request.header(CONTENT_TYPE).unwrap_or("application/octet-stream").to_owned();
    let encoding = request.header(CONTENT_ENCODING).unwrap_or("identity").trim().to_ascii_lowercase();
    let packed = match encoding.as_str() {
        "identity" => false,
        "gzip" => true,
        _ => {
            let message = "Only gzip and identity content-encodings are supported";
            return Err(Error::bad_content_type(message));
        }
    };
    // Check everything that may refuse the upload before its bytes are stored.
    let (base, doc) = match Named::of(request)?.one()? {
        None => {
            parse_id(&id)?;
            check_new(&collection, &id)?;
            (Base::New, None)
        }
        Some(rev) => {
            let doc = named_revision(&collection, &id, &rev)?;
            (Base::Leaf(doc.revision), Some(doc))
        }
    };
    let mut body = request.take_body().into_raw();
    let (mut blob, _) = stream(&request.couch, &collection, &kind, packed, &mut body)?;
    if packed {
        forget_length(&mut blob);
    }
    if let Some(digest) = request.named_header("content-md5")
        && STANDARD.decode(digest).ok().as_deref() != Some(&blob.received_md5[..])
    {
        return Err(Error::content_md5_mismatch("Possible message corruption."));
    }
    let mut attaching = Attaching::default();
    attaching.add(&name, &kind, THIS_EDIT, blob);
    let written = edit(request, &collection, id, base, doc, &name, attaching)?;
    let url = location(request, &[request.param("db"), &written.id, &name]);
    Ok(Response::json_text(201, written.to_json())
        .with_header(LOCATION, url)
        .with_etag(&written.rev)
        .after(written.commit))
}

/// Removes an attachment from its document.
pub(crate) fn delete(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let id = id_of(request);
    users::require_whole(request, &collection, &id)?;
    let name = request.param("name").to_owned();
    check_name(&name)?;
    let rev = Named::of(request)?.one()?;
    let doc = match &rev {
        None => {
            let id = parse_id(&id).map_err(|_| Error::missing())?;
            find(&collection.view(), &id, None)?
        }
        Some(rev) => named_revision(&collection, &id, rev)?,
    };
    if !doc.attachments.iter().any(|attachment| attachment.name == name) {
        return Err(Error::not_found("Document is missing attachment"));
    }
    // Without a revision the edit creates a document, which conflicts with the existing one.
    let base = rev.map_or(Base::New, |_| Base::Leaf(doc.revision));
    let written = edit(request, &collection, id, base, Some(doc), &name, Attaching::default())?;
    Ok(Response::json_text(200, written.to_json()).with_etag(&written.rev).after(written.commit))
}

/// Returns the revision that a request names; fails if it is not stored.
fn named_revision(collection: &Arc<Collection>, id: &str, rev: &Rev) -> Result<RevisedDocument> {
    let missing = || Error::new(409, "not_found", "missing_rev");
    let id = parse_id(id)?;
    find(&collection.view(), &id, Some(rev))
        .map_err(|error| if error.status == 404 { missing() } else { error })
}

/// Stores the document with its other attachments and those in `attaching`; drops the one called `name`.
fn edit(
    request: &Request,
    collection: &Arc<Collection>,
    id: String,
    base: Base,
    doc: Option<RevisedDocument>,
    name: &str,
    mut attaching: Attaching,
) -> Result<Written> {
    let (body, deleted) = match &doc {
        Some(doc) => (without_id(doc.doc.as_doc()), doc.deleted),
        None => (DocBuf::new(), false),
    };
    for attachment in doc.into_iter().flat_map(|doc| doc.attachments) {
        if attachment.name != name {
            attaching.keep(collection, attachment)?;
        }
    }
    let draft = Draft::new(id, Some(base), deleted, body, attaching)?;
    edit_one(&request.couch, collection, &Author::of(request), draft)
}
