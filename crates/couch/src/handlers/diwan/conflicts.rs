//! `GET /_diwan/conflicts/{db}`: the documents that have conflicts.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use diwan_kv::{Bytes, Direction, KeyRange};
use diwan_value::Value as Bson;
use diwan_value::json::id_to_text;
use serde_json::{Value, json};
use std::ops::{Bound, ControlFlow};
use std::time::{Duration, Instant};

/// How many documents an answer has, and at most.
const DEFAULT_ROWS: usize = 100;
const MOST_ROWS: usize = 1000;
/// How long a request reads. The next request goes on from there.
const LONGEST: Duration = Duration::from_millis(500);
/// After how many documents the clock is read.
const STRIDE: u64 = 1024;

/// Lists documents with conflicts in the store's order of ids.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let limit = match request.query.get("limit") {
        None => DEFAULT_ROWS,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=MOST_ROWS).contains(limit))
            .ok_or_else(|| Error::bad_request(format!("`limit` must be from 1 to {MOST_ROWS}.")))?,
    };
    let start = match request.query.get("start") {
        None => Bound::Unbounded,
        Some(text) => Bound::Excluded(Bytes::from(
            URL_SAFE_NO_PAD
                .decode(text)
                .map_err(|_| Error::bad_request("`start` must be the `next` of an answer."))?,
        )),
    };
    let view = request.database()?.view();
    let begun = Instant::now();
    let mut rows: Vec<Value> = Vec::new();
    let mut next = None;
    let mut failure = None;
    let mut read = 0u64;
    view.documents(&KeyRange::new(start, Bound::Unbounded), Direction::Forward, &mut |id, record| {
        read += 1;
        if record.has_branches() {
            match view.tree(id) {
                Ok(tree) => {
                    let conflicts = tree.map(|tree| tree.conflicts()).unwrap_or_default();
                    if !conflicts.is_empty() {
                        let mut text = String::new();
                        id_to_text(record.doc.get("_id").unwrap_or(Bson::Null), &mut text);
                        let conflicts: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
                        let winner = record.revision().to_string();
                        rows.push(json!({ "id": text, "winner": winner, "conflicts": conflicts }));
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        let is_late = read.is_multiple_of(STRIDE) && begun.elapsed() > LONGEST;
        if rows.len() == limit || is_late {
            next = Some(URL_SAFE_NO_PAD.encode(id));
        }
        if next.is_some() || failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(Response::json(200, &json!({ "rows": rows, "next": next }))),
    }
}
