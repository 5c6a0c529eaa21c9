//! `_local/{local}` and `_local_docs`: documents that are not replicated, in which replicators note how far they are.

use super::all_docs::each_query;
use crate::error::{Error, Result};
use crate::http::{Request, Response, RowWriter};
use diwan_kv::Direction;
use diwan_store::{Collection, LocalDocument};
use diwan_value::json::{write_couch_members, write_string};
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// A local document.
pub fn get(collection: &Collection, name: &str) -> Result<Response> {
    let doc = collection.local(name)?.ok_or_else(Error::missing)?;
    let mut text = Vec::new();
    write(&mut text, name, &doc);
    Ok(Response::json_text(200, text))
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
    let keys = request.query.json("keys")?;
    rows(request, &collection, keys, &Map::new())
}

/// The same, by the parameters of the body too.
pub fn list_post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    let body = request.read_object()?;
    rows(request, &collection, body.get("keys").cloned(), &body)
}

/// Several lists in one answer.
pub fn queries(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    let body = request.read_object()?;
    let listings = each_query(&body)?
        .into_iter()
        .map(|query| Listing::read(request, query.get("keys").cloned(), query))
        .collect::<Result<Vec<_>>>()?;
    let collection = collection.clone();
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

/// Which rows are asked for.
struct Wanted {
    start: Option<String>,
    end: Option<String>,
    inclusive_end: bool,
    descending: bool,
    skip: u64,
    limit: u64,
    include_docs: bool,
}

impl Wanted {
    fn read(request: &Request, body: &Map<String, Value>) -> Result<Wanted> {
        let query = &request.query;
        let text = |names: &[&str]| -> Result<Option<String>> {
            for name in names {
                match query.json(name)?.or_else(|| body.get(*name).cloned()) {
                    None | Some(Value::Null) => {}
                    Some(Value::String(text)) => return Ok(Some(text)),
                    Some(_) => return Err(Error::query_parse_error(format!("`{name}` must be a string"))),
                }
            }
            Ok(None)
        };
        let flag = |name: &str, default: bool| -> Result<bool> {
            match (query.get(name), body.get(name)) {
                (None, Some(Value::Bool(flag))) => Ok(*flag),
                _ => query.flag_or(name, default),
            }
        };
        let number = |name: &str| -> Result<Option<u64>> {
            Ok(query.number(name)?.or_else(|| body.get(name).and_then(Value::as_u64)))
        };
        let key = text(&["key"])?;
        Ok(Wanted {
            start: text(&["startkey", "start_key"])?.or_else(|| key.clone()),
            end: text(&["endkey", "end_key"])?.or(key),
            inclusive_end: flag("inclusive_end", true)?,
            descending: flag("descending", false)?,
            skip: number("skip")?.unwrap_or(0),
            limit: number("limit")?.unwrap_or(u64::MAX),
            include_docs: flag("include_docs", false)?,
        })
    }

    /// The names between which they lie, smaller first; nothing if none can.
    fn bounds(&self) -> Option<(Bound<&str>, Bound<&str>)> {
        let (low, high) = if self.descending { (&self.end, &self.start) } else { (&self.start, &self.end) };
        let is_end = |is_low: bool| is_low == self.descending;
        let bound = |key: Option<&'_ String>, is_low: bool| -> Option<Bound<usize>> {
            let Some(key) = key else { return Some(Bound::Unbounded) };
            match key.starts_with(PREFIX) {
                true if is_end(is_low) && !self.inclusive_end => Some(Bound::Excluded(PREFIX.len())),
                true => Some(Bound::Included(PREFIX.len())),
                // A key before all local documents bounds nothing below, and leaves nothing above it.
                false => ((key.as_str() < PREFIX) == is_low).then_some(Bound::Unbounded),
            }
        };
        Some((cut(low, bound(low.as_ref(), true)?), cut(high, bound(high.as_ref(), false)?)))
    }
}

fn cut(key: &Option<String>, bound: Bound<usize>) -> Bound<&str> {
    bound.map(|at| key.as_deref().and_then(|key| key.get(at..)).unwrap_or_default())
}

fn rows(
    request: &Request,
    collection: &Arc<Collection>,
    keys: Option<Value>,
    body: &Map<String, Value>,
) -> Result<Response> {
    let listing = Listing::read(request, keys, body)?;
    let collection = collection.clone();
    Ok(Response::rows(move |out| {
        listing.write(&collection, out)?;
        out.write_all(b"\n")
    }))
}

/// One list, ready to be written.
struct Listing {
    wanted: Wanted,
    keys: Option<Vec<Value>>,
}

impl Listing {
    fn read(request: &Request, keys: Option<Value>, body: &Map<String, Value>) -> Result<Listing> {
        let wanted = Wanted::read(request, body)?;
        let keys = match keys {
            None | Some(Value::Null) => None,
            Some(Value::Array(keys)) => Some(keys),
            Some(_) => return Err(Error::bad_request("`keys` body member must be an array.")),
        };
        Ok(Listing { wanted, keys })
    }

    fn write(&self, collection: &Arc<Collection>, out: &mut RowWriter) -> io::Result<()> {
        out.write_all(br#"{"total_rows":null,"offset":null,"rows":["#)?;
        match &self.keys {
            Some(keys) => self.write_keys(keys, collection, out)?,
            None => self.write_range(collection, out)?,
        }
        out.write_all(b"\n]}")
    }

    fn write_keys(&self, keys: &[Value], collection: &Collection, out: &mut RowWriter) -> io::Result<()> {
        let skip = usize::try_from(self.wanted.skip).unwrap_or(usize::MAX);
        let limit = usize::try_from(self.wanted.limit).unwrap_or(usize::MAX);
        let mut first = true;
        for key in keys.iter().skip(skip).take(limit) {
            let name = key.as_str().and_then(|key| key.strip_prefix(PREFIX));
            let found = match name {
                Some(name) => collection.local(name).map_err(Error::from)?,
                None => None,
            };
            begin_row(out.buffer(), &mut first);
            match (name, found) {
                (Some(name), Some(doc)) => write_row(out.buffer(), name, &doc, self.wanted.include_docs),
                _ => write!(out.buffer(), r#"{{"key":{key},"error":"not_found"}}"#)?,
            }
            out.row_done()?;
        }
        Ok(())
    }

    fn write_range(&self, collection: &Arc<Collection>, out: &mut RowWriter) -> io::Result<()> {
        let wanted = &self.wanted;
        let Some((low, high)) = wanted.bounds() else { return Ok(()) };
        let direction = if wanted.descending { Direction::Reverse } else { Direction::Forward };
        let (mut skip, mut limit) = (wanted.skip, wanted.limit);
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

fn write_row(out: &mut Vec<u8>, name: &str, doc: &LocalDocument, include_docs: bool) {
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
