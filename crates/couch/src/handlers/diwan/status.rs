//! `GET /_diwan/status` and `GET /_diwan/history`: the server at a glance.

use crate::auth::rights::may_see_metrics;
use crate::config::Report;
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_access::Caller;
use diwan_store::replica::Replica;
use serde_json::{Value, json};
use std::time::Duration;

/// Returns the addresses of both faces, and sizes to those who may see them.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let mut status = report(request, Report::Status)?;
    if let Value::Object(members) = &mut status {
        members.insert("open".to_owned(), json!(matches!(request.caller, Caller::Everybody)));
        if matches!(request.caller, Caller::Everybody) || may_see_metrics(&request.couch, &request.caller) {
            members.insert("figures".to_owned(), report(request, Report::Figures)?);
            members.insert("replica_set".to_owned(), replica_set(request.couch.store.replica()));
        }
    }
    Ok(Response::json(200, &status))
}

/// The part of this server, what it follows, and who follows it.
fn replica_set(replica: &Replica) -> Value {
    let identity = replica.identity();
    let millis = |duration: Duration| duration.as_millis() as u64;
    let followers: Vec<Value> = replica
        .members()
        .iter()
        .map(|follower| {
            json!({
                "host": follower.host, "complete": follower.complete, "silent_ms": millis(follower.silent)
            })
        })
        .collect();
    let primary = replica.primary();
    json!({
        "role": if primary.is_some() { "follower" } else { "primary" },
        "term": identity.term.max(1),
        "followers": followers,
        "primary": primary.as_ref().map(|primary| &primary.url),
        "complete": replica.is_readable(),
        "lag_ms": replica.lag().map(millis),
        "trouble": primary.and_then(|primary| primary.trouble),
    })
}

/// Returns the samples of the last hour.
pub(crate) fn history(request: &mut Request) -> Result<Response> {
    Ok(Response::json(200, &report(request, Report::History)?))
}

fn report(request: &Request, report: Report) -> Result<Value> {
    let reports = request.couch.config.reports.as_ref();
    reports.map(|give| give(report)).ok_or_else(|| Error::not_implemented("This server gives no reports."))
}
