//! `GET /_db_updates`: the feed of created, changed and deleted databases.

use super::parameters::{Kind, Patience};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::names;
use crate::server::Couch;
use diwan_access::Caller;
use diwan_store::{DatabaseEvent, DatabaseEventKind};
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::json;
use std::io;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// How many events are read at once.
const BATCH: usize = 256;

/// The parameters of the request.
#[derive(Clone, Copy)]
struct Asked {
    kind: Kind,
    since: u64,
    limit: u64,
    patience: Patience,
}

/// Answers `GET /_db_updates`.
pub(crate) fn answer(request: &mut Request) -> Result<Response> {
    let couch = request.couch.clone();
    let query = &request.query;
    let kind = Kind::parse(query.get("feed"))?;
    let since = match query.get("since").map(|text| text.trim_matches('"')) {
        None | Some("") => 0,
        Some("now") => couch.store.last_database_event(),
        Some(text) => text
            .parse::<u64>()
            .map_err(|_| Error::bad_request("Malformed sequence supplied in 'since' parameter."))?,
    };
    let limit = query.number("limit")?.unwrap_or(u64::MAX);
    let asked = Asked { kind, since, limit, patience: Patience::read(request)? };
    if kind == Kind::Normal {
        let descending = query.flag("descending")?;
        let last = couch.store.last_database_event();
        let mut events = couch.store.database_events(since, usize::MAX);
        // Events that happened since `last` was read belong to the next request.
        events.retain(|event| event.sequence <= last);
        if descending {
            events.reverse();
        }
        let mut rows: Vec<_> =
            events.iter().filter_map(|event| Some((event.sequence, row(event)?))).collect();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let is_cut = rows.len() > limit;
        rows.truncate(limit);
        // If the limit cut rows off, the next request must start after the last row sent.
        let next = match (rows.last(), is_cut) {
            (Some((sequence, _)), true) => *sequence,
            (None, true) => since,
            _ => last,
        };
        let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
        return Ok(Response::json(200, &json!({ "results": rows, "last_seq": next.to_string() })));
    }
    let (sender, receiver) = mpsc::channel(2);
    tokio::runtime::Handle::current().spawn(follow(couch, request.caller.clone(), asked, sender));
    let response = Response::feed(receiver);
    Ok(match kind {
        Kind::EventSource => {
            response.with_header(CONTENT_TYPE, "text/event-stream").with_header(CACHE_CONTROL, "no-cache")
        }
        _ => response,
    })
}

/// Sends events to the channel until the client leaves, the limit is reached, or the feed times out.
async fn follow(couch: Arc<Couch>, caller: Caller, asked: Asked, sender: mpsc::Sender<io::Result<Bytes>>) {
    let Asked { kind, mut since, limit: mut left, patience } = asked;
    let news = Arc::new(Notify::new());
    // Subscribe before the first read, so that no event is missed in between.
    let waker = news.clone();
    let _subscription = couch.store.on_database_event(Box::new(move || waker.notify_one()));
    let mut last_sent = Instant::now();
    let mut out = String::new();
    let mut written = 0u64;
    if kind == Kind::Longpoll {
        out.push_str("{\"results\":[\n");
    }
    // A caller who has lost his rights sees no more events.
    let may_go_on = || couch.access.renew(&caller).is_ok_and(|caller| caller.is_server_admin());
    while may_go_on() {
        let events = couch.store.database_events(since, BATCH);
        for event in &events {
            if left == 0 {
                break;
            }
            since = event.sequence;
            let Some(row) = row(event) else { continue };
            out.push_str(&match kind {
                Kind::EventSource => format!("data: {row}\nid: {since}\n\n"),
                Kind::Longpoll if written == 0 => row.to_string(),
                Kind::Longpoll => format!(",\n{row}"),
                _ => format!("{row}\n"),
            });
            written += 1;
            left -= 1;
        }
        if !out.is_empty() {
            if sender.send(Ok(std::mem::take(&mut out).into())).await.is_err() {
                return;
            }
            last_sent = Instant::now();
        }
        if left == 0 || (kind == Kind::Longpoll && written > 0 && events.len() < BATCH) {
            break;
        }
        // A full batch may not be all: read on before waiting.
        if events.len() == BATCH {
            continue;
        }
        tokio::select! {
            () = news.notified() => {}
            () = sender.closed() => return,
            () = tokio::time::sleep_until(last_sent + patience.period()) => match patience {
                Patience::Timeout(_) => break,
                Patience::Heartbeat(_) => {
                    out.push_str(if kind == Kind::EventSource { "event: heartbeat\ndata: \n\n" } else { "\n" });
                }
            }
        }
    }
    let end = match kind {
        Kind::EventSource => return,
        Kind::Longpoll => format!("\n],\n\"last_seq\":\"{since}\"}}\n"),
        _ => format!("{{\"last_seq\":\"{since}\"}}\n"),
    };
    let _ = sender.send(Ok(end.into())).await;
}

/// Formats an event; `None` for one that HTTP does not show.
fn row(event: &DatabaseEvent) -> Option<serde_json::Value> {
    let kind = match event.kind {
        DatabaseEventKind::Created => "created",
        DatabaseEventKind::Updated => "updated",
        DatabaseEventKind::Deleted => "deleted",
        DatabaseEventKind::Altered => return None,
    };
    let name = names::database(&event.namespace)?;
    Some(json!({ "db_name": name, "type": kind, "seq": event.sequence.to_string() }))
}
