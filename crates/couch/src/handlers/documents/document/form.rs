//! `POST /{db}/{doc}`: a form of a web page with a new document (`_doc`) or the revision of the stored one (`_rev`),
//! and files that become attachments (`_attachments`).

use super::{find, id_of, store, without_id};
use crate::document::{Attaching, Rev, check_name, forwarded, parse_id, stream};
use crate::edit::{Context, Draft, Named};
use crate::error::{Error, Result};
use crate::http::multipart::{Multipart, parameter};
use crate::http::{Request, Response};
use crate::server::Couch;
use crate::users;
use diwan_store::blob::StagedBlob;
use diwan_store::{Base, Collection};
use hyper::header::{CONTENT_TYPE, HOST, REFERER};
use std::io::{self, Read};
use std::sync::Arc;

/// How many attachments one form may contain.
const MOST_FILES: usize = 1000;

/// The parsed form.
#[derive(Default)]
struct Form {
    doc: Option<Vec<u8>>,
    rev: Option<String>,
    files: Vec<File>,
}

struct File {
    name: String,
    content_type: String,
    blob: StagedBlob,
}

/// Stores the document.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    check_referer(request)?;
    let id = id_of(request);
    users::require_whole(request, &collection, &id)?;
    let key = parse_id(&id)?;
    if request.content_type().as_deref() != Some("multipart/form-data") {
        return Err(Error::bad_content_type("Content-Type must be multipart/form-data"));
    }
    let kind = request.header(CONTENT_TYPE).unwrap_or_default().to_owned();
    let limit = request.couch.max_request_bytes();
    let mut body = request.take_body();
    let form = Form::read(&request.couch, &collection, &mut body, &kind, limit)?;
    io::copy(&mut body.take(limit as u64), &mut io::sink())?;
    let mut draft = match form.doc {
        Some(text) => {
            let max_bytes = request.couch.max_document_bytes();
            let context =
                Context { couch: &request.couch, collection: &collection, max_bytes, replicated: false };
            Draft::read(&context, &text, Some(&id), &Named::of(request)?, String::new, None)?
        }
        None => {
            let rev = Rev::parse(&form.rev.ok_or_else(Error::bad_revision)?)?;
            let found = find(&collection.view(), &key, Some(&rev))?;
            let mut attaching = Attaching::default();
            for attachment in found.attachments {
                attaching.keep(&collection, attachment)?;
            }
            let base = Some(Base::Leaf(found.revision));
            Draft::new(id, base, found.deleted, without_id(found.doc.as_doc()), attaching)?
        }
    };
    for file in form.files {
        draft.attach(&file.name, &file.content_type, file.blob);
    }
    store(request, &collection, draft, 201)
}

/// Browsers submit forms for any page. As in CouchDB, only pages of this server are accepted.
fn check_referer(request: &Request) -> Result<()> {
    let referer = request.header(REFERER).ok_or_else(|| Error::bad_request("Referer header required."))?;
    let rest = referer.split_once("://").map_or(referer, |(_, rest)| rest);
    let from = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = forwarded(request, "x_forwarded_host").or_else(|| request.header(HOST)).unwrap_or_default();
    if !from.eq_ignore_ascii_case(host) {
        return Err(Error::bad_request("Referer header must match host."));
    }
    Ok(())
}

impl Form {
    fn read(
        couch: &Couch,
        collection: &Arc<Collection>,
        body: &mut dyn Read,
        kind: &str,
        limit: usize,
    ) -> Result<Form> {
        let mut parts = Multipart::of_type(body, kind)?;
        let mut form = Form::default();
        while let Some(headers) = parts.next_part()? {
            let disposition = headers.get("content-disposition").unwrap_or_default().to_owned();
            let field = parameter(&disposition, "name").unwrap_or_default();
            let mut text = |limit| -> Result<Vec<u8>> {
                parts.read_part(limit)?.ok_or_else(|| Error::too_large("the request entity is too large"))
            };
            match field.as_str() {
                "_doc" => form.doc = Some(text(limit)?),
                "_rev" => form.rev = Some(String::from_utf8_lossy(&text(limit.min(1000))?).trim().to_owned()),
                "_attachments" => {
                    if form.files.len() == MOST_FILES {
                        return Err(Error::bad_request(format!(
                            "a form may contain at most {MOST_FILES} attachments"
                        )));
                    }
                    let name = parameter(&disposition, "filename").unwrap_or_default();
                    // A browser sends an empty file name if no file was chosen.
                    if name.is_empty() {
                        continue;
                    }
                    check_name(&name)?;
                    let content_type =
                        headers.get("content-type").unwrap_or("application/octet-stream").to_owned();
                    let (blob, _) = stream(couch, collection, &content_type, false, &mut parts)?;
                    form.files.push(File { name, content_type, blob });
                }
                _ => {}
            }
        }
        Ok(form)
    }
}
