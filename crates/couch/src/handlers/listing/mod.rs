//! What the listings of ids (`_all_docs`, `_local_docs`, `_all_dbs`) share: their parameters and intervals.

mod interval;
mod parameters;

pub(crate) use interval::{Edge, Interval};
pub(crate) use parameters::{Members, Parameters};

use crate::error::{Error, Result};
use serde_json::{Map, Value};

/// How many queries one request may contain.
const MOST_QUERIES: usize = 1000;

/// Returns the members of `queries`.
pub(crate) fn each_query(body: &Map<String, Value>) -> Result<Vec<&Map<String, Value>>> {
    let queries = match body.get("queries") {
        None => return Err(Error::bad_request("POST body must include `queries` parameter.")),
        Some(Value::Array(queries)) => queries,
        Some(_) => return Err(Error::bad_request("`queries` member must be an array.")),
    };
    if queries.len() > MOST_QUERIES {
        return Err(Error::bad_request(format!("at most {MOST_QUERIES} queries are allowed in one request")));
    }
    queries
        .iter()
        .map(|query| {
            query.as_object().ok_or_else(|| Error::bad_request("each of `queries` must be a JSON object"))
        })
        .collect()
}
