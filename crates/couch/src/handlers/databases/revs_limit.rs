//! `/{db}/_revs_limit` and `/{db}/_purged_infos_limit`: how much history is kept.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_value::Value as Bson;
use serde_json::json;

/// The collection setting for the number of remembered purges. Nothing reads it here; in CouchDB it serves internal
/// replication.
const PURGED_INFOS: &str = "purged_infos_limit";
/// CouchDB's default for it.
const DEFAULT_PURGED_INFOS: i64 = 1000;

/// Returns how many revisions of each branch are kept.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    Ok(Response::json(200, &json!(collection.revision_limit())))
}

/// Sets how many revisions of each branch are kept.
pub(crate) fn put(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let limit = request.read_json()?.as_u64().and_then(|limit| u32::try_from(limit).ok());
    let limit = limit
        .filter(|&limit| limit > 0 && limit <= i32::MAX as u32)
        .ok_or_else(|| Error::bad_request("`revs_limit` must be positive integer"))?;
    let commit = collection.set_revision_limit(limit)?;
    Ok(Response::ok(200).after(Some(commit)))
}

/// Returns how many purges are remembered.
pub(crate) fn get_purged_infos(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let limit = collection.setting(PURGED_INFOS).and_then(|value| value.as_value().as_i64_exact());
    Ok(Response::json(200, &json!(limit.unwrap_or(DEFAULT_PURGED_INFOS))))
}

/// Sets how many purges are remembered.
pub(crate) fn put_purged_infos(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let limit = request.read_json()?.as_i64().filter(|&limit| limit > 0);
    let limit = limit.ok_or_else(|| Error::bad_request("`purge_infos_limit` must be positive integer"))?;
    let commit = collection.set_setting(PURGED_INFOS, Some(Bson::Int64(limit)))?;
    Ok(Response::ok(200).after(Some(commit)))
}
