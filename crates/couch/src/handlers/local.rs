//! `_local/{local}` and `_local_docs`: documents that are not replicated, in which replicators note how far they are.

use super::all_docs::{Edge, Interval, Members, Parameters, each_query};
use crate::error::{Error, Result};
use crate::http::{Request, Response, RowWriter};
use diwan_kv::Direction;
use diwan_store::{Collection, LocalDocument};
use diwan_value::json::{write_couch_members, write_string};
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::io::{self, Write};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// A local document.
pub fn get(request: &Request, collection: &Collection, name: &str) -> Result<Response> {
    let doc = collection.local(name)?.ok_or_else(Error::missing)?;
    let mut text = Vec::new();
    write(&mut text, name, &doc);
    // One that is made again has its revisions again: they say nothing of what is in it.
    let tag = &blake3::hash(&text).to_hex()[..32];
    Ok(request.not_modified(tag).unwrap_or_else(|| Response::json_text(200, text).with_etag(tag)))
}

/// Appends a local document.
pub fn write(out: &mut Vec<u8>, name: &str, doc: &LocalDocument) {
    out.extend_from_slice(br#"{"_id":"#);
    write_string(out, &format!("_local/{name}"));
    let _ = write!(out, r#","_rev":"0-{}""#, doc.revision);
    write_couch_members(out, doc.doc.as_doc());
    out.push(b'}');
}

/// Refuses what local documents do not have.
pub fn refuse_attachment(request: &mut Request) -> Result<Response> {
    request.database()?;
    Err(Error::bad_request("_local documents do not accept attachments."))
}

/// Refuses a local document without a name.
pub fn refuse_unnamed(request: &mut Request) -> Result<Response> {
    request.database()?;
    Err(Error::bad_request("Invalid _local document id."))
}

/// All local documents, by the parameters of the URL.
pub fn list(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    rows(request, collection, None)
}

/// The same, by the parameters of the body too.
pub fn list_post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    let body = request.read_object()?;
    rows(request, collection, Some(&body))
}

/// Several lists in one answer.
pub fn queries(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let body = request.read_object()?;
    let listings = each_query(&body)?
        .into_iter()
        .map(|query| Listing::read(&Members::of_one(&request.query, query)))
        .collect::<Result<Vec<_>>>()?;
    Ok(Response::rows(move |out| {
        out.write_all(b"{\"results\":[")?;
        for (at, listing) in listings.iter().enumerate() {
            out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
            listing.write(&collection, out)?;
        }
        out.write_all(b"\n]}\n")
    }))
}

/// What all ids of local documents begin with.
const PREFIX: &str = "_local/";

/// The names between which they lie; nothing if none can.
fn bounds(interval: &Interval) -> Option<(Bound<&str>, Bound<&str>)> {
    Some((bound(interval.low.as_ref(), Ordering::Less)?, bound(interval.high.as_ref(), Ordering::Greater)?))
}

/// One of them. A text that names no local document lies before or behind all of them: on the `open` side it bounds
/// nothing, on the other it leaves nothing.
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
    let listing = Listing::read(&Members::new(&request.query, body))?;
    Ok(Response::rows(move |out| {
        listing.write(&collection, out)?;
        out.write_all(b"\n")
    }))
}

/// One list, ready to be written.
struct Listing {
    wanted: Parameters,
}

impl Listing {
    fn read(members: &Members<'_>) -> Result<Listing> {
        Ok(Listing { wanted: Parameters::read(members)? })
    }

    fn write(&self, collection: &Arc<Collection>, out: &mut RowWriter) -> io::Result<()> {
        out.write_all(br#"{"total_rows":null,"offset":null,"rows":["#)?;
        match &self.wanted.keys {
            Some(keys) => self.write_keys(keys, collection, out)?,
            None => self.write_range(collection, out)?,
        }
        out.write_all(b"\n]}")
    }

    fn write_keys(&self, keys: &[Value], collection: &Collection, out: &mut RowWriter) -> io::Result<()> {
        let (skip, limit) = self.wanted.page();
        let mut first = true;
        let chosen: Box<dyn Iterator<Item = &Value>> = match self.wanted.descending {
            false => Box::new(keys.iter().skip(skip).take(limit)),
            true => Box::new(keys.iter().rev().skip(skip).take(limit)),
        };
        for key in chosen {
            // What can be no local document is no row, though it was counted as one.
            let Some(name) = key.as_str().and_then(|key| key.strip_prefix(PREFIX)) else { continue };
            let found = collection.local(name).map_err(Error::from)?;
            begin_row(out.buffer(), &mut first);
            match found {
                Some(doc) => write_row(out.buffer(), name, &doc, self.wanted.include_docs),
                None => write!(out.buffer(), r#"{{"key":{key},"error":"not_found"}}"#)?,
            }
            out.row_done()?;
        }
        Ok(())
    }

    fn write_range(&self, collection: &Arc<Collection>, out: &mut RowWriter) -> io::Result<()> {
        let wanted = &self.wanted;
        let Some((low, high)) = bounds(&wanted.interval) else { return Ok(()) };
        let direction = if wanted.descending { Direction::Reverse } else { Direction::Forward };
        let (mut skip, mut limit) = wanted.page();
        let (mut first, mut broken) = (true, None);
        collection
            .view()
            .scan_local(low, high, direction, &mut |name, doc| {
                if skip > 0 {
                    skip -= 1;
                    return Ok(ControlFlow::Continue(()));
                }
                if limit == 0 {
                    return Ok(ControlFlow::Break(()));
                }
                limit -= 1;
                begin_row(out.buffer(), &mut first);
                write_row(out.buffer(), name, &doc, wanted.include_docs);
                Ok(match out.row_done() {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        broken = Some(error);
                        ControlFlow::Break(())
                    }
                })
            })
            .map_err(Error::from)?;
        broken.map_or(Ok(()), Err)
    }
}

fn begin_row(out: &mut Vec<u8>, first: &mut bool) {
    out.extend_from_slice(if std::mem::take(first) { b"\n" } else { b",\n" });
}

/// Appends the row of a local document.
pub fn write_row(out: &mut Vec<u8>, name: &str, doc: &LocalDocument, include_docs: bool) {
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
