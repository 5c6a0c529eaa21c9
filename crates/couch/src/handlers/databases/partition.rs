//! `GET /{db}/_partition/{partition}`: describes a partition.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::partition;
use diwan_store::ChangeKind;
use serde_json::json;

/// Counts the partition's documents and their sizes.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let name = partition::of(request)?;
    let range = partition::range(&name)?;
    let measured = partition::measure(&collection, &name, u64::MAX)?;
    let mut deleted = 0u64;
    // The scan above does not see deleted documents; the change log lists them.
    collection.view().changes(0, |change| {
        deleted += u64::from(change.kind == ChangeKind::Delete && range.contains(change.id));
        Ok(true)
    })?;
    Ok(Response::json(
        200,
        &json!({
            "db_name": request.param("db"),
            "partition": name,
            "doc_count": measured.documents,
            "doc_del_count": deleted,
            "sizes": { "active": measured.bytes, "external": measured.bytes }
        }),
    ))
}

/// Refuses a `POST` to a partition, such as `_partition/_find` without the partition's name.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    request.database()?;
    if request.param("partition").starts_with('_') {
        partition::check(request.param("partition"))?;
    }
    Err(Error::method_not_allowed("Only GET allowed").with_header("allow", "GET"))
}

/// Answers an unknown path below a partition.
pub(crate) fn missing(request: &mut Request) -> Result<Response> {
    partition::of(request)?;
    Err(Error::missing())
}

/// Answers a path without a partition.
pub(crate) fn unnamed(request: &mut Request) -> Result<Response> {
    request.database()?;
    Err(Error::bad_request("invalid_partition_req"))
}
