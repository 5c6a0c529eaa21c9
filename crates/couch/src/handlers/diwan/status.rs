//! `GET /_diwan/status` and `GET /_diwan/history`: the server at a glance.

use crate::auth::rights::may_see_metrics;
use crate::config::Report;
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_access::Caller;
use serde_json::{Value, json};

/// Returns the addresses of both faces, and sizes to those who may see them.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let mut status = report(request, Report::Status)?;
    if let Value::Object(members) = &mut status {
        members.insert("open".to_owned(), json!(matches!(request.caller, Caller::Everybody)));
        if matches!(request.caller, Caller::Everybody) || may_see_metrics(&request.couch, &request.caller) {
            members.insert("figures".to_owned(), report(request, Report::Figures)?);
        }
    }
    Ok(Response::json(200, &status))
}

/// Returns the samples of the last hour.
pub(crate) fn history(request: &mut Request) -> Result<Response> {
    Ok(Response::json(200, &report(request, Report::History)?))
}

fn report(request: &Request, report: Report) -> Result<Value> {
    let reports = request.couch.config.reports.as_ref();
    reports.map(|give| give(report)).ok_or_else(|| Error::not_implemented("This server gives no reports."))
}
