//! `/{db}/_design/{ddoc}/_list/{list}/{view}`: the rows of a view as a function of its design document shows them.

use crate::design::{ViewDocuments, load, read_query, request_object, sandboxed, with_headers};
use crate::error::{Error, Result};
use crate::http::{Request, Response, RowWriter};
use crate::sequence;
use diwan_script::{ListCall, ListEvent, Row, TemporaryView, ViewHead, ViewSink};
use diwan_store::Collection;
use diwan_value::json::write_string;
use hyper::StatusCode;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

/// All documents, as a view: lists may show these rows too.
const ALL_DOCS: &str = r#"{"map":"function (doc) { emit(doc._id, {rev: doc._rev}); }","options":{"include_design":true,"collation":"raw"}}"#;

/// A path without the names of the function and the view.
pub fn unnamed(_: &mut Request) -> Result<Response> {
    Err(Error::new(404, "list_error", "Invalid path."))
}

/// Calls the function with the rows.
pub fn call(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let design = request.design(&collection)?;
    if request.method == hyper::Method::POST {
        request.require_json()?;
    }
    let body = request.read_body()?;
    // The view may be another design document's.
    let (source, view) = match request.param("source") {
        "" => (design.clone(), request.param("view").to_owned()),
        other => (load(&collection, other)?, request.param("view").to_owned()),
    };
    let text = std::str::from_utf8(&body).map_err(|_| Error::bad_request("invalid UTF-8 JSON"))?;
    let query = read_query(request, Some(text).filter(|text| !text.is_empty()))?;
    let object = request_object(request, &collection, None, &body)?;
    let call = request.couch.scripts.list(&design, request.param("list"), &object)?;
    let (start, started) = sync_channel(1);
    let couch = request.couch.clone();
    let response = Response::tried_rows(move |out| {
        let mut sink = Sink { call, out, start: Some(start), collection: &collection };
        match view.as_str() {
            "_all_docs" => {
                let all = TemporaryView::parse(ALL_DOCS)?;
                couch.views.temporary(&collection, &all, &query, &ViewDocuments, &mut sink)?;
            }
            view => couch.views.query(&collection, &source, view, &query, &ViewDocuments, &mut sink)?,
        }
        sink.finish()
    })?;
    // What the function says of the head comes before its first words.
    let head = started.try_recv().unwrap_or_default();
    Ok(begin(response, &head))
}

/// The response with the status and headers that the function names.
fn begin(mut response: Response, head: &Value) -> Response {
    if let Some(code) = head.get("code").and_then(Value::as_u64)
        && let Ok(code) = StatusCode::from_u16(u16::try_from(code).unwrap_or(500))
    {
        response.status = code;
    }
    sandboxed(with_headers(response, head.get("headers")))
}

/// Hands rows to the function, and what it says to the client.
struct Sink<'a> {
    call: ListCall,
    out: &'a mut RowWriter,
    start: Option<SyncSender<Value>>,
    collection: &'a Arc<Collection>,
}

impl Sink<'_> {
    fn finish(self) -> Result<()> {
        let Sink { call, out, mut start, .. } = self;
        call.finish(&mut |event| say(event, out, &mut start))?;
        Ok(())
    }
}

fn say(
    event: ListEvent,
    out: &mut RowWriter,
    start: &mut Option<SyncSender<Value>>,
) -> diwan_script::Result<()> {
    match event {
        ListEvent::Start(head) => {
            if let Some(start) = start.take() {
                let _ = start.send(serde_json::from_str(&head).unwrap_or_default());
            }
        }
        ListEvent::Chunk(text) => {
            out.write_all(text.as_bytes()).map_err(|_| diwan_script::Error::Ended)?;
        }
    }
    Ok(())
}

impl ViewSink for Sink<'_> {
    fn head(&mut self, head: &ViewHead) -> diwan_script::Result<()> {
        let mut told = json!({});
        if let Some(total) = head.total_rows {
            told = json!({ "total_rows": total, "offset": head.offset.unwrap_or(0) });
        }
        if let Some(update_seq) = head.update_seq {
            told["update_seq"] = sequence::text(self.collection, update_seq).into();
        }
        let Sink { call, out, start, .. } = self;
        call.head(&told.to_string(), &mut |event| say(event, out, start))
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
        let Sink { call, out, start, .. } = self;
        call.row(&String::from_utf8_lossy(&text), &mut |event| say(event, out, start))
    }
}
