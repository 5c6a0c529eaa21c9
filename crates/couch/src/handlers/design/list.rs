//! `/{db}/_design/{ddoc}/_list/{list}/{view}`: the rows of a view, formatted by a list function.

use crate::design::{Reading, ViewDocuments, load, read_query, request_object, sandboxed, with_headers};
use crate::error::{Error, Result};
use crate::http::{Flow, Request, Response, RowWriter};
use crate::sequence;
use diwan_script::{ListCall, ListEvent, Queried, Row, TemporaryView, ViewHead, ViewSink};
use diwan_store::Collection;
use diwan_value::json::write_string;
use hyper::StatusCode;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// A view of all documents, for lists over `_all_docs`.
const ALL_DOCS: &str = r#"{"map":"function (doc) { emit(doc._id, {rev: doc._rev}); }","options":{"include_design":true,"collation":"raw"}}"#;

/// Answers a path that lacks the function or the view.
pub(crate) fn unnamed(_: &mut Request) -> Result<Response> {
    Err(Error::new(404, "list_error", "Invalid path."))
}

/// Calls the function with the rows of the view.
pub(crate) fn call(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let design = request.design(&collection)?;
    if request.method == hyper::Method::POST {
        request.require_json()?;
    }
    let body = request.read_body()?;
    // The view may belong to another design document.
    let (source, view) = match request.param("source") {
        "" => (design.clone(), request.param("view").to_owned()),
        other => (load(&collection, other)?, request.param("view").to_owned()),
    };
    let text = std::str::from_utf8(&body).map_err(|_| Error::bad_request("invalid UTF-8 JSON"))?;
    let query = read_query(request, Some(text).filter(|text| !text.is_empty()))?;
    let object = request_object(request, &collection, None, &body)?;
    let call = request.couch.scripts.list(&design, request.param("list"), &object)?;
    let couch = request.couch.clone();
    let mut reading = Reading::new(collection.clone(), query);
    let (mut call, mut place): (_, Option<OwnedSemaphorePermit>) = (Some(call), None);
    Ok(Response::rows(move |out| {
        // The function occupies a thread and a JavaScript context until it ends, so their number is limited.
        if place.is_none() {
            place = couch.workers.list();
            if place.is_none() {
                return Ok(Flow::Later);
            }
            let own = couch.clone();
            out.holds_scarce(move || own.workers.lists_are_wanted());
            out.change_head(|response| begin(response, &Value::Null));
        }
        // Rows go through the function; what it returns goes to the client.
        let flow = reading.show(
            out,
            &mut |query, take| {
                if view != "_all_docs" {
                    return Ok(Some(couch.views().query(&collection, &source, &view, query, take)?));
                }
                let Some(_place) = couch.workers.mapper() else { return Ok(None) };
                let all = TemporaryView::parse(ALL_DOCS)?;
                let answer = couch.views().temporary(&collection, &all, query)?;
                // The result may have been spilled to the store, so take the snapshot afterwards.
                take();
                Ok(Some(Queried::Answer(Box::new(answer))))
            },
            &mut |out, answer, view| {
                let Some(call) = &mut call else { return Ok(false) };
                let mut sink = Sink { call, out, collection: &collection, enough: false };
                let has_more = answer.go_on(view, &ViewDocuments, &mut sink)?;
                Ok(has_more && !sink.enough)
            },
        )?;
        if flow == Flow::Done
            && let Some(call) = call.take()
        {
            call.finish(&mut |event| say(event, out))?;
            place = None;
        }
        Ok(flow)
    }))
}

/// Applies the status and headers that the function set.
fn begin(mut response: Response, head: &Value) -> Response {
    response.is_json = false;
    if let Some(code) = head.get("code").and_then(Value::as_u64)
        && let Ok(code) = StatusCode::from_u16(u16::try_from(code).unwrap_or(500))
    {
        response.status = code;
    }
    sandboxed(with_headers(response, head.get("headers")))
}

/// Passes rows to the function and its output to the client.
struct Sink<'a> {
    call: &'a mut ListCall,
    out: &'a mut RowWriter,
    collection: &'a Arc<Collection>,
    /// The function requested no more rows.
    enough: bool,
}

fn say(event: ListEvent, out: &mut RowWriter) -> diwan_script::Result<()> {
    match event {
        // The function sets the head before its first output.
        ListEvent::Start(head) => {
            let head = serde_json::from_str(&head).unwrap_or_default();
            out.change_head(move |response| begin(response, &head));
        }
        ListEvent::Chunk(text) => out.buffer().extend_from_slice(text.as_bytes()),
    }
    Ok(())
}

impl ViewSink for Sink<'_> {
    fn head(&mut self, head: &ViewHead) -> diwan_script::Result<()> {
        let mut shown = json!({});
        if let Some(total) = head.total_rows {
            shown = json!({ "total_rows": total, "offset": head.offset.unwrap_or(0) });
        }
        if let Some(update_seq) = head.update_seq {
            shown["update_seq"] = sequence::text(self.collection, update_seq).into();
        }
        let Sink { call, out, .. } = self;
        call.head(&shown.to_string(), &mut |event| say(event, out))
    }

    fn row(&mut self, row: &Row<'_>) -> diwan_script::Result<bool> {
        let mut text = Vec::with_capacity(row.key.len() + row.value.len() + 64);
        text.push(b'{');
        if let Some(id) = row.id {
            text.extend_from_slice(br#""id":"#);
            write_string(&mut text, id);
            text.push(b',');
        }
        let _ = write!(text, r#""key":{},"value":{}"#, row.key, row.value);
        if let Some(doc) = row.doc {
            let _ = write!(text, r#","doc":{doc}"#);
        }
        text.push(b'}');
        let Sink { call, out, .. } = self;
        self.enough = !call.row(&String::from_utf8_lossy(&text), &mut |event| say(event, out))?;
        Ok(!self.enough && !self.out.is_full())
    }
}
