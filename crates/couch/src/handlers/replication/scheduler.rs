//! `/_scheduler`: replication jobs, and the documents that define them.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use serde_json::{Value, json};

/// The default limit.
const ROWS: u64 = 100;
/// The values of the `states` parameter.
const STATES: [&str; 6] = ["initializing", "error", "pending", "running", "crashing", "completed"];

/// Lists all jobs.
pub(crate) fn jobs(request: &mut Request) -> Result<Response> {
    let jobs = request.couch.replicator()?.jobs();
    page(request, jobs, "jobs")
}

/// Returns one job.
pub(crate) fn job(request: &mut Request) -> Result<Response> {
    let job = request.couch.replicator()?.job(request.param("job")).ok_or_else(Error::missing)?;
    Ok(Response::json(200, &job))
}

/// Lists the documents of `_replicator`.
pub(crate) fn docs(request: &mut Request) -> Result<Response> {
    documents(request, "_replicator")
}

/// Lists the documents of another replicator database.
pub(crate) fn docs_of(request: &mut Request) -> Result<Response> {
    let database = request.param("db").to_owned();
    if database != "_replicator" && !database.ends_with("/_replicator") {
        return Err(Error::missing());
    }
    documents(request, &database)
}

/// Returns one document.
pub(crate) fn doc(request: &mut Request) -> Result<Response> {
    let (database, id) = (request.param("db"), request.param("doc"));
    if database != "_replicator" && !database.ends_with("/_replicator") {
        // The slash in the database's name may be unescaped.
        return match id.strip_prefix("_replicator") {
            Some("") => {
                let database = format!("{database}/_replicator");
                documents(request, &database)
            }
            Some(rest) if rest.starts_with('/') => {
                one(request, &format!("{database}/_replicator"), &rest[1..])
            }
            _ => Err(Error::bad_request("")),
        };
    }
    one(request, database, id)
}

/// Answers an unknown path below `_scheduler`.
pub(crate) fn missing(_: &mut Request) -> Result<Response> {
    Ok(Response::json(404, &json!({ "error": "not found" })))
}

fn one(request: &Request, database: &str, id: &str) -> Result<Response> {
    let document = request.couch.replicator()?.document(database, id).ok_or_else(Error::missing)?;
    Ok(Response::json(200, &document))
}

fn documents(request: &Request, database: &str) -> Result<Response> {
    let mut documents = request.couch.replicator()?.documents(database);
    if let Some(wanted) = request.query.get("states") {
        let wanted: Vec<String> = wanted.split(',').map(|name| name.trim().to_lowercase()).collect();
        if let Some(unknown) =
            wanted.iter().find(|name| *name != "failed" && !STATES.contains(&name.as_str()))
        {
            return Err(Error::query_parse_error(format!("Unknown replication state {unknown}")));
        }
        documents.retain(|document| {
            document
                .get("state")
                .and_then(Value::as_str)
                .is_some_and(|state| wanted.iter().any(|name| name == state))
        });
    }
    if request.query.flag("descending")? {
        documents.reverse();
    }
    page(request, documents, "docs")
}

fn page(request: &Request, rows: Vec<Value>, name: &str) -> Result<Response> {
    let total = rows.len();
    let count = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let offset = count(request.query.number("skip")?.unwrap_or(0)).min(total);
    let limit = count(request.query.number("limit")?.unwrap_or(ROWS));
    let rows: Vec<Value> = rows.into_iter().skip(offset).take(limit).collect();
    Ok(Response::json(200, &json!({ "total_rows": total, "offset": offset, name: rows })))
}
