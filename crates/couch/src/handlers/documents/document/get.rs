//! `GET /{db}/{doc}`: a document, one of its revisions, or several.

use super::{find, id_of};
use crate::document::{
    DocOptions, IdKey, OpenRevs, Related, Rev, Show, known_since, local_name, own_origin, parse_id,
    send_related, write_doc,
};
use crate::error::{Error, Result};
use crate::handlers::documents::local;
use crate::http::{Flow, Request, Response, multipart};
use crate::replicator::owner;
use crate::users::{self, Seen};
use diwan_store::blob::Attachment;
use diwan_store::{Collection, ReadView, RevisedDocument};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use std::io::Write;

/// Returns the document.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let id = id_of(request);
    let mut options = DocOptions::parse(&request.query)?;
    options.show.exact_integers = request.keeps_integers();
    let seen = users::seen(request, &collection, &id)?;
    if let Some(name) = local_name(&id) {
        return local::get(request, &collection, name);
    }
    // An invalid id names no document.
    let id = parse_id(&id).map_err(|_| Error::missing())?;
    let view = collection.view();
    if let Some(response) = part(request, &collection, &view, &id, &seen)? {
        return Ok(response);
    }
    if let Some(revs) = &options.open_revs {
        return open_revs(request, view, id, revs, &options);
    }
    let rev = if options.latest { None } else { options.rev.as_ref() };
    let doc = find(&view, &id, rev)?;
    let show = if rev.is_some() { options.show.of_revision() } else { options.show };
    // Metadata may change without the revision, so the answer gets no `ETag` then.
    let tag = match has_meta(&view, &id, &doc, &show)? {
        true => None,
        false => Some(doc.revision.to_string()),
    };
    if let Some(response) = tag.as_deref().and_then(|tag| request.not_modified(tag)) {
        return Ok(response);
    }
    let response = if !show.attachments || doc.attachments.is_empty() {
        let mut text = Vec::with_capacity(doc.doc.as_doc().as_bytes().len() + 128);
        write_doc(&mut text, &view, &id.key, &doc, &show)?;
        Response::json_text(200, text)
    } else if request.takes("multipart/related") {
        let related = relate(&view, &id, &doc, &show, multipart::boundary())?;
        let (kind, length) = (related.content_type(), related.length().to_string());
        Response::rows(move |out| send_related(out, &collection, &related).map(|()| Flow::Done))
            .with_header(CONTENT_TYPE, kind)
            .with_header(CONTENT_LENGTH, length)
    } else {
        Response::rows(move |out| {
            let view = out.view(&collection);
            write_doc(out, &view, &id.key, &doc, &show)?;
            out.write_all(b"\n")?;
            Ok(Flow::Done)
        })
    };
    Ok(match tag {
        Some(tag) => response.with_etag(&tag),
        None => response,
    })
}

/// Answers with a part of the document, if the caller does not see all of it. Options that ask for more than the fields
/// are ignored.
fn part(
    request: &Request,
    collection: &Collection,
    view: &ReadView,
    id: &IdKey,
    seen: &Seen,
) -> Result<Option<Response>> {
    let part = match seen {
        Seen::Fields(fields) => users::public_part(&find(view, id, None)?, fields)?,
        Seen::Whole => {
            if owner::sees_all(request, collection, None) {
                return Ok(None);
            }
            let found = find(view, id, None)?;
            if owner::sees_all(request, collection, Some(found.doc.as_doc())) {
                return Ok(None);
            }
            owner::stripped(found.doc.as_doc())
        }
    };
    let found = RevisedDocument { doc: part, attachments: Vec::new(), ..find(view, id, None)? };
    let mut text = Vec::new();
    write_doc(&mut text, view, &id.key, &found, &Show::default())?;
    Ok(Some(Response::json_text(200, text)))
}

/// Redirects a design document's path with an escaped slash to the one with a plain slash.
pub(crate) fn redirect(request: &mut Request) -> Result<Response> {
    request.database()?;
    let mut path = request.path.clone();
    if let Some(at) = path.to_ascii_lowercase().find(DESIGN_PART) {
        path.replace_range(at..at + DESIGN_PART.len(), "_design/");
    }
    let query = request.query.text();
    let mark = if query.is_empty() { "" } else { "?" };
    let mut response = Response::new(301, "text/plain", "");
    response.headers.clear();
    Ok(response.with_header(LOCATION, format!("{}{path}{mark}{query}", own_origin(request))))
}

/// The prefix of such a path segment, in lower case.
pub(crate) const DESIGN_PART: &str = "_design%2f";

/// Whether the answer depends on more than the revision. Requested conflicts only count if there are any.
fn has_meta(view: &ReadView, id: &IdKey, doc: &RevisedDocument, show: &Show) -> Result<bool> {
    if show.revs_info || show.local_seq {
        return Ok(true);
    }
    if !doc.has_branches || !(show.conflicts || show.deleted_conflicts) {
        return Ok(false);
    }
    let Some(tree) = view.tree(&id.key)? else { return Ok(false) };
    Ok(tree.leaves().iter().any(|leaf| {
        let is_shown = if leaf.deleted { show.deleted_conflicts } else { show.conflicts };
        is_shown && leaf.revision != doc.revision
    }))
}

/// Builds the `multipart/related` form: the JSON, and the attachments that follow.
pub(in crate::handlers) fn relate(
    view: &ReadView,
    id: &IdKey,
    doc: &RevisedDocument,
    show: &Show,
    boundary: String,
) -> Result<Related> {
    let show = Show { attachments: true, follows: true, att_encoding_info: true, ..show.clone() };
    let mut json = Vec::new();
    write_doc(&mut json, view, &id.key, doc, &show)?;
    let since = match show.atts_since.is_empty() {
        true => None,
        false => {
            let path = view.tree(&id.key)?.map(|tree| tree.path(&doc.revision));
            known_since(&path.unwrap_or_default(), &show.atts_since)
        }
    };
    let follows = |attachment: &&Attachment| since.is_none_or(|since| attachment.revpos > since);
    let following = doc.attachments.iter().filter(follows).cloned().collect();
    Ok(Related { json, following, boundary })
}

/// The requested revisions, or the names of missing ones.
pub(in crate::handlers) type Opened = Vec<std::result::Result<RevisedDocument, Rev>>;

/// Finds revisions: all leaves, the listed revisions, or the leaves that descend from them.
pub(in crate::handlers) fn open(
    view: &ReadView,
    id: &IdKey,
    revs: &OpenRevs,
    latest: bool,
) -> Result<Opened> {
    let winner = view.document(&id.key)?;
    // Most documents have one leaf; then the tree need not be read.
    let only = winner.as_ref().filter(|doc| !doc.has_branches);
    if let (Some(doc), OpenRevs::All) = (only, revs) {
        return Ok(vec![Ok(doc.clone())]);
    }
    if let (Some(doc), OpenRevs::List(revs)) = (only, revs)
        && let [Rev::Own(revision)] = revs.as_slice()
        && *revision == doc.revision
    {
        return Ok(vec![Ok(doc.clone())]);
    }
    let tree = if winner.is_some() { view.tree(&id.key)? } else { None };
    let tree = tree.unwrap_or_default();
    let load = |revision| -> Result<_> { Ok(view.revision(&id.key, revision)?) };
    let mut found: Opened = Vec::new();
    match revs {
        OpenRevs::All => {
            for leaf in tree.leaves() {
                found.extend(load(leaf.revision)?.map(Ok));
            }
        }
        OpenRevs::List(revs) => {
            let mut missing = Vec::new();
            for rev in revs {
                let wanted = match rev.own() {
                    Some(revision) if latest => {
                        tree.leaves_of(&revision).into_iter().map(|leaf| leaf.revision).collect()
                    }
                    Some(revision) => vec![revision],
                    None => Vec::new(),
                };
                let before = found.len();
                for revision in wanted {
                    if let Some(doc) = load(revision)? {
                        let is_new = |other: &std::result::Result<RevisedDocument, Rev>| {
                            other.as_ref().is_ok_and(|other| other.revision == doc.revision)
                        };
                        if !latest || !found.iter().any(is_new) {
                            found.push(Ok(doc));
                        }
                    }
                }
                let has_leaves = latest && rev.own().is_some_and(|revision| tree.contains(&revision));
                if found.len() == before && !has_leaves {
                    missing.push(Err(rev.clone()));
                }
            }
            found.append(&mut missing);
        }
    }
    Ok(found)
}

/// Answers `open_revs`, as a JSON array or as `multipart/mixed`.
fn open_revs(
    request: &Request,
    view: ReadView,
    id: IdKey,
    revs: &OpenRevs,
    options: &DocOptions,
) -> Result<Response> {
    let opened = open(&view, &id, revs, options.latest)?;
    if opened.is_empty() && *revs == OpenRevs::All {
        return Err(Error::missing());
    }
    let show = options.show.of_revision();
    let collection = view.collection().clone();
    let mut at = 0;
    // As in CouchDB, the answer is multipart unless the client accepts only other types.
    if !request.takes("multipart/mixed") {
        return Ok(Response::rows(move |out| {
            if at == 0 {
                out.write_all(b"[")?;
            }
            let Some(one) = opened.get(at) else {
                out.write_all(b"]\n")?;
                return Ok(Flow::Done);
            };
            if at > 0 {
                out.write_all(b",")?;
            }
            match one {
                Ok(doc) => {
                    out.write_all(br#"{"ok":"#)?;
                    let view = out.view(&collection);
                    write_doc(out, &view, &id.key, doc, &show)?;
                    out.write_all(b"}")?;
                }
                Err(rev) => write_missing(out.buffer(), rev),
            }
            at += 1;
            Ok(Flow::More)
        }));
    }
    let boundary = multipart::boundary();
    let kind = format!("multipart/mixed; boundary=\"{boundary}\"");
    let inner = multipart::boundary();
    let response = Response::rows(move |out| {
        if at == 0 {
            write!(out, "--{boundary}")?;
        }
        match opened.get(at) {
            None => {
                out.write_all(b"--")?;
                return Ok(Flow::Done);
            }
            Some(Ok(doc)) => {
                // Each call writes one revision, so that a slow client holds no more than one in memory.
                let related = relate(&out.view(&collection), &id, doc, &show, inner.clone())?;
                write!(out, "\r\nContent-Type: {}\r\n\r\n", related.content_type())?;
                send_related(out, &collection, &related)?;
            }
            Some(Err(rev)) => {
                write!(out, "\r\nContent-Type: application/json; error=\"true\"\r\n\r\n")?;
                write_missing(out.buffer(), rev);
            }
        }
        write!(out, "\r\n--{boundary}")?;
        at += 1;
        Ok(Flow::More)
    });
    Ok(response.with_header(CONTENT_TYPE, kind))
}

fn write_missing(out: &mut Vec<u8>, rev: &Rev) {
    out.extend_from_slice(br#"{"missing":""#);
    rev.push(out);
    out.extend_from_slice(b"\"}");
}
