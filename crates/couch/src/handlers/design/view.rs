//! `/{db}/_design/{ddoc}/_view/{view}`: the rows of stored and temporary views.

use crate::design::{Reading, body_text, read_one_query, read_query, read_temporary_query};
use crate::error::{Error, Result};
use crate::http::{Flow, Request, Response};
use diwan_script::{Design, Queried, TemporaryView, ViewQuery};
use diwan_store::Collection;
use serde_json::Value;

/// How many queries one request may contain.
const MOST_QUERIES: usize = 1000;

/// Queries a view with parameters in the URL.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let query = read_query(request, None)?;
    one(request, query)
}

/// Queries a view with parameters in the body.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    request.require_json()?;
    let body = body_text(request)?;
    // CouchDB 2 accepted several queries in this form.
    if let Some(text) = &body
        && let Ok(Value::Object(members)) = serde_json::from_str(text)
        && let Some(queries) = members.get("queries")
    {
        if queries.is_array() && members.get("keys").is_some_and(Value::is_array) {
            return Err(Error::bad_request("`keys` and `queries` are mutually exclusive"));
        }
        return several(request, queries);
    }
    let query = read_query(request, body.as_deref())?;
    one(request, query)
}

/// Answers several queries in sequence.
pub(crate) fn queries(request: &mut Request) -> Result<Response> {
    let body = request.read_object()?;
    let queries = body.get("queries");
    several(
        request,
        queries.ok_or_else(|| Error::bad_request("POST body must include `queries` parameter."))?,
    )
}

/// Answers a path without a view, or below one.
pub(crate) fn unnamed(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.design(&collection)?;
    let methods = if request.param("rest") == "queries" { "POST" } else { "GET,POST,HEAD" };
    Err(Error::method_not_allowed(format!("Only {methods} allowed")).with_header("allow", methods))
}

/// Queries a temporary view, which is computed for this request only.
pub(crate) fn post_temporary(request: &mut Request) -> Result<Response> {
    request.require_json()?;
    let collection = request.database()?;
    let body = body_text(request)?.unwrap_or_default();
    let view = TemporaryView::parse(&body)?;
    let query = read_temporary_query(request, &body)?;
    let couch = request.couch.clone();
    let mut reading = Reading::new(collection.clone(), query);
    Ok(Response::rows(move |out| {
        let flow = reading.write(out, &mut |query, take| {
            let Some(_place) = couch.workers.mapper() else { return Ok(None) };
            let answer = couch.views().temporary(&collection, &view, query)?;
            // The result may have been spilled to the store, so take the snapshot afterwards.
            take();
            Ok(Some(Queried::Answer(Box::new(answer))))
        })?;
        if flow == Flow::Done {
            out.buffer().push(b'\n');
        }
        Ok(flow)
    }))
}

fn one(request: &Request, query: ViewQuery) -> Result<Response> {
    answer(request, vec![query], false)
}

fn several(request: &Request, queries: &Value) -> Result<Response> {
    let Value::Array(queries) = queries else {
        return Err(Error::bad_request("`queries` member must be an array."));
    };
    if queries.len() > MOST_QUERIES {
        return Err(Error::bad_request(format!("at most {MOST_QUERIES} queries are allowed in one request")));
    }
    let queries = queries.iter().map(|query| read_one_query(request, &query.to_string()));
    let queries = queries.collect::<Result<Vec<_>>>()?;
    answer(request, queries, true)
}

/// Runs the queries. The answer of a single query is its rows; several are wrapped in an object.
fn answer(request: &Request, queries: Vec<ViewQuery>, are_several: bool) -> Result<Response> {
    let collection = request.database()?;
    let design = request.design(&collection)?;
    let view = request.param("view").to_owned();
    check_partition(&collection, &design, &queries)?;
    let couch = request.couch.clone();
    let mut readings: Vec<_> =
        queries.into_iter().map(|query| Reading::new(collection.clone(), query)).collect();
    let (mut at, mut begun) = (0, false);
    Ok(Response::rows(move |out| {
        let Some(reading) = readings.get_mut(at) else {
            let end: &[u8] = match (are_several, at) {
                (true, 0) => b"{\"results\":[\r\n]}\n",
                (true, _) => b"\r\n]}\n",
                (false, _) => b"\n",
            };
            out.buffer().extend_from_slice(end);
            return Ok(Flow::Done);
        };
        if are_several && !std::mem::replace(&mut begun, true) {
            let begin: &[u8] = if at == 0 { b"{\"results\":[\r\n" } else { b",\r\n" };
            out.buffer().extend_from_slice(begin);
        }
        let flow = reading.write(out, &mut |query, take| {
            Ok(Some(couch.views().query(&collection, &design, &view, query, take)?))
        })?;
        Ok(match flow {
            Flow::Done => {
                (at, begun) = (at + 1, false);
                Flow::More
            }
            flow => flow,
        })
    }))
}

/// Requires a partition for views of partitioned databases and refuses one for all others.
fn check_partition(collection: &Collection, design: &Design, queries: &[ViewQuery]) -> Result<()> {
    let partitioned =
        crate::partition::is_partitioned(collection) && design.options().partitioned.unwrap_or(true);
    match queries.iter().all(|query| query.partition.is_some()) {
        false if partitioned && !queries.is_empty() => {
            Err(Error::query_parse_error("`partition` parameter is mandatory for queries to this view."))
        }
        true if !partitioned && !queries.is_empty() => {
            Err(Error::query_parse_error("`partition` parameter is not supported in this design doc"))
        }
        _ => Ok(()),
    }
}
