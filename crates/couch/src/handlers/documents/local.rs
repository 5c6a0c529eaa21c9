//! `_local/{local}` and `_local_docs`: documents that are not replicated, such as replication checkpoints.

use crate::error::{Error, Result};
use crate::handlers::listing::{Edge, Interval, Members, Parameters, each_query};
use crate::http::{Flow, Request, Response, RowWriter};
use diwan_kv::Direction;
use diwan_store::{Collection, LocalDocument};
use diwan_value::json::{write_couch_members, write_string};
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::io::Write;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Returns a local document.
pub(crate) fn get(request: &Request, collection: &Collection, name: &str) -> Result<Response> {
    let doc = collection.local(name)?.ok_or_else(Error::missing)?;
    let mut text = Vec::new();
    write(&mut text, name, &doc);
    // A deleted and recreated document repeats its revisions, so the `ETag` is a hash of the content.
    let tag = &blake3::hash(&text).to_hex()[..32];
    Ok(request.not_modified(tag).unwrap_or_else(|| Response::json_text(200, text).with_etag(tag)))
}

/// Appends a local document as JSON.
pub(crate) fn write(out: &mut Vec<u8>, name: &str, doc: &LocalDocument) {
    out.extend_from_slice(br#"{"_id":"#);
    write_string(out, &format!("_local/{name}"));
    let _ = write!(out, r#","_rev":"0-{}""#, doc.revision);
    write_couch_members(out, doc.doc.as_doc());
    out.push(b'}');
}

/// Refuses attachments of local documents.
pub(crate) fn refuse_attachment(request: &mut Request) -> Result<Response> {
    request.database()?;
    Err(Error::bad_request("_local documents do not accept attachments."))
}

/// Refuses a local document without a name.
pub(crate) fn refuse_unnamed(request: &mut Request) -> Result<Response> {
    request.database()?;
    Err(Error::bad_request("Invalid _local document id."))
}

/// Lists local documents with parameters in the URL.
pub(crate) fn list(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    rows(request, collection, None)
}

/// Lists local documents with parameters in the body.
pub(crate) fn list_post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    let body = request.read_object()?;
    rows(request, collection, Some(&body))
}

/// Answers several listings at once.
pub(crate) fn queries(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let body = request.read_object()?;
    let mut listings = each_query(&body)?
        .into_iter()
        .map(|query| Listing::read(&Members::of_one(&request.query, query)))
        .collect::<Result<Vec<_>>>()?;
    let mut at = 0;
    Ok(Response::rows(move |out| {
        let Some(listing) = listings.get_mut(at) else {
            out.write_all(if at == 0 { b"{\"results\":[\n]}\n" } else { b"\n]}\n" })?;
            return Ok(Flow::Done);
        };
        if !listing.begun {
            out.write_all(if at == 0 { b"{\"results\":[\n" } else { b",\n" })?;
        }
        if listing.write(&collection, out)? == Flow::Done {
            at += 1;
        }
        Ok(Flow::More)
    }))
}

/// The prefix of local documents' ids.
const PREFIX: &str = "_local/";

/// Converts an interval of ids to one of names; `None` if it is empty.
fn bounds(interval: &Interval) -> Option<(Bound<&str>, Bound<&str>)> {
    Some((bound(interval.low.as_ref(), Ordering::Less)?, bound(interval.high.as_ref(), Ordering::Greater)?))
}

/// Converts one end. A text without the prefix lies before or after all local documents: on the `open` side it is no
/// bound, on the other side the interval is empty.
fn bound(edge: Option<&Edge>, open: Ordering) -> Option<Bound<&str>> {
    let Some(edge) = edge else { return Some(Bound::Unbounded) };
    match edge.text.strip_prefix(PREFIX) {
        Some(name) if edge.inclusive => Some(Bound::Included(name)),
        Some(name) => Some(Bound::Excluded(name)),
        None => (edge.text.as_str().cmp(PREFIX) == open).then_some(Bound::Unbounded),
    }
}

fn rows(
    request: &Request,
    collection: Arc<Collection>,
    body: Option<&Map<String, Value>>,
) -> Result<Response> {
    let mut listing = Listing::read(&Members::new(&request.query, body))?;
    Ok(Response::rows(move |out| {
        let flow = listing.write(&collection, out)?;
        if flow == Flow::Done {
            out.write_all(b"\n")?;
        }
        Ok(flow)
    }))
}

/// One listing with its state.
struct Listing {
    wanted: Parameters,
    begun: bool,
    /// How many documents are still to be skipped, and how many rows the limit still allows.
    skip: usize,
    limit: usize,
    /// No row has been written yet.
    first: bool,
    /// How many keys have been looked up.
    next: usize,
    /// The name in the last row.
    last: Option<String>,
}

impl Listing {
    fn read(members: &Members<'_>) -> Result<Listing> {
        let wanted = Parameters::read(members)?;
        let (skip, limit) = wanted.page();
        Ok(Listing { wanted, begun: false, skip, limit, first: true, next: 0, last: None })
    }

    /// Writes the listing until the buffer is full.
    fn write(&mut self, collection: &Arc<Collection>, out: &mut RowWriter) -> Result<Flow> {
        if !std::mem::replace(&mut self.begun, true) {
            out.write_all(br#"{"total_rows":null,"offset":null,"rows":["#)?;
        }
        let flow = match self.wanted.keys.is_some() {
            true => self.write_keys(collection, out)?,
            false => self.write_range(collection, out)?,
        };
        if flow == Flow::Done {
            out.write_all(b"\n]}")?;
        }
        Ok(flow)
    }

    fn write_keys(&mut self, collection: &Collection, out: &mut RowWriter) -> Result<Flow> {
        let keys = self.wanted.keys.as_deref().unwrap_or_default();
        let count = keys.len().saturating_sub(self.skip).min(self.limit);
        while self.next < count && !out.is_full() {
            let at = self.skip + self.next;
            let key = &keys[if self.wanted.descending { keys.len() - 1 - at } else { at }];
            self.next += 1;
            // A key that cannot be a local document's id yields no row, although it counts towards `limit`.
            let Some(name) = key.as_str().and_then(|key| key.strip_prefix(PREFIX)) else { continue };
            let found = collection.local(name)?;
            begin_row(out.buffer(), &mut self.first);
            match found {
                Some(doc) => write_row(out.buffer(), name, &doc, self.wanted.include_docs),
                None => write!(out.buffer(), r#"{{"key":{key},"error":"not_found"}}"#)?,
            }
        }
        Ok(if self.next < count { Flow::More } else { Flow::Done })
    }

    fn write_range(&mut self, collection: &Arc<Collection>, out: &mut RowWriter) -> Result<Flow> {
        let descending = self.wanted.descending;
        let Some((mut low, mut high)) = bounds(&self.wanted.interval) else { return Ok(Flow::Done) };
        let before = self.last.take();
        if let Some(last) = &before {
            match descending {
                false => low = Bound::Excluded(last),
                true => high = Bound::Excluded(last),
            }
        }
        let direction = if descending { Direction::Reverse } else { Direction::Forward };
        let view = out.view(collection);
        let (skip, limit, first) = (&mut self.skip, &mut self.limit, &mut self.first);
        let (include_docs, mut last) = (self.wanted.include_docs, None);
        view.scan_local(low, high, direction, &mut |name, doc| {
            if *skip > 0 {
                *skip -= 1;
                return Ok(ControlFlow::Continue(()));
            }
            if *limit == 0 {
                return Ok(ControlFlow::Break(()));
            }
            *limit -= 1;
            begin_row(out.buffer(), first);
            write_row(out.buffer(), name, &doc, include_docs);
            if out.is_full() {
                last = Some(name.to_owned());
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.last = last;
        Ok(if self.last.is_some() { Flow::More } else { Flow::Done })
    }
}

fn begin_row(out: &mut Vec<u8>, first: &mut bool) {
    out.extend_from_slice(if std::mem::take(first) { b"\n" } else { b",\n" });
}

/// Appends a listing's row of a local document.
pub(crate) fn write_row(out: &mut Vec<u8>, name: &str, doc: &LocalDocument, include_docs: bool) {
    let id = format!("_local/{name}");
    out.extend_from_slice(br#"{"id":"#);
    write_string(out, &id);
    out.extend_from_slice(br#","key":"#);
    write_string(out, &id);
    let _ = write!(out, r#","value":{{"rev":"0-{}"}}"#, doc.revision);
    if include_docs {
        out.extend_from_slice(br#","doc":"#);
        write(out, name, doc);
    }
    out.push(b'}');
}
