//! `COPY /{db}/{doc}`: copies a document to another id.

use super::{find, id_of, store, without_id};
use crate::document::{Attaching, Rev, check_new, local_name, parse_id};
use crate::edit::{Draft, Named, local_count};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::users;
use diwan_store::Base;
use percent_encoding::percent_decode_str;

/// Copies the document with its attachments.
pub(crate) fn copy(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let rev = Named::of(request)?.one()?;
    let (target, target_rev) = destination(request)?;
    let source = id_of(request);
    users::require_whole(request, &collection, &source)?;
    let (body, attachments, deleted) = match local_name(&source) {
        Some(name) => {
            let local = collection.local(name)?.ok_or_else(Error::missing)?;
            (local.doc, Vec::new(), false)
        }
        None => {
            let id = parse_id(&source).map_err(|_| Error::missing())?;
            let doc = find(&collection.view(), &id, rev.as_ref())?;
            (without_id(doc.doc.as_doc()), doc.attachments, doc.deleted)
        }
    };
    if local_name(&target).is_some() {
        let previous = target_rev.as_ref().map(local_count).transpose()?;
        return store(request, &collection, Draft::new_local(target, previous, deleted, body), 201);
    }
    check_new(&collection, &target)?;
    let mut attaching = Attaching::default();
    for attachment in attachments {
        attaching.keep(&collection, attachment)?;
    }
    let base = match target_rev {
        None => Some(Base::New),
        Some(Rev::Own(revision)) => Some(Base::Leaf(revision)),
        Some(Rev::Foreign(_)) => None,
    };
    let draft = Draft::new(target, base, deleted, body, attaching)?;
    store(request, &collection, draft, 201)
}

/// Parses the `Destination` header: an id and optionally the existing revision.
fn destination(request: &Request) -> Result<(String, Option<Rev>)> {
    let Some(text) = request.named_header("destination") else {
        return Err(Error::bad_request("Destination header is mandatory for COPY."));
    };
    if text.starts_with("http://") || text.starts_with("https://") {
        return Err(Error::bad_request("Destination URL must be relative."));
    }
    let (id, rev) = match text.split_once('?') {
        None => (text, None),
        Some((id, query)) => {
            let rev = query.split_once('=').filter(|(name, _)| *name == "rev").map(|(_, rev)| rev);
            (id, Some(Rev::parse(rev.ok_or_else(Error::bad_revision)?)?))
        }
    };
    let id = percent_decode_str(id)
        .decode_utf8()
        .map_err(|_| Error::illegal_docid("Document id must be valid UTF-8"))?;
    Ok((id.into_owned(), rev))
}
