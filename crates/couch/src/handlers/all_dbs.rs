//! `GET /_all_dbs`: the names of all databases.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use serde_json::{Value, json};

/// The names, in order, within `startkey` and `endkey`.
pub fn get(request: &mut Request) -> Result<Response> {
    let names = select(request)?;
    Ok(Response::json(200, &json!(names)))
}

/// The names that the request's parameters choose.
pub fn select(request: &Request) -> Result<Vec<String>> {
    let query = &request.query;
    let bound = |name: &str, other: &str| -> Result<Option<String>> {
        match query.json(name)?.or(query.json(other)?) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Error::query_parse_error(format!("`{name}` must be a string"))),
        }
    };
    let (start, end) = (bound("startkey", "start_key")?, bound("endkey", "end_key")?);
    let inclusive = query.flag_or("inclusive_end", true)?;
    let mut names: Vec<String> = request.couch.databases().into_iter().map(|(name, _)| name).collect();
    let descending = query.flag("descending")?;
    if descending {
        names.reverse();
    }
    names.retain(|name| {
        let (low, high) = if descending { (&end, &start) } else { (&start, &end) };
        let above = low.as_ref().is_none_or(|low| name > low || (name == low && (inclusive || !descending)));
        let below =
            high.as_ref().is_none_or(|high| name < high || (name == high && (inclusive || descending)));
        above && below
    });
    let skip = usize::try_from(query.number("skip")?.unwrap_or(0)).unwrap_or(usize::MAX);
    let limit = query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    Ok(names.into_iter().skip(skip).take(limit).collect())
}
