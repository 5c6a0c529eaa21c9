//! `GET /{db}/_partition/{partition}`: describes a partition.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::partition;
use diwan_kv::{Bytes, Direction, KeyRange};
use diwan_store::{ChangeKind, id_key};
use diwan_value::Value as Bson;
use serde_json::json;
use std::ops::ControlFlow;

/// Counts the partition's documents and their sizes.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let name = partition::of(request)?;
    let key = |end: char| -> Result<Bytes> { Ok(id_key(Bson::String(&format!("{name}{end}")))?.into()) };
    // The range ends at the character after the colon.
    let range = KeyRange::half_open(key(':')?, key(';')?);
    let view = collection.view();
    let (mut count, mut deleted, mut bytes) = (0u64, 0u64, 0u64);
    let mut damage = None;
    view.documents(&range, Direction::Forward, &mut |_, record| {
        count += 1;
        bytes += record.doc.as_bytes().len() as u64;
        if record.has_attachments() {
            match record.attachments() {
                Ok(list) => bytes += list.iter().map(|attachment| attachment.encoded_length).sum::<u64>(),
                Err(error) => {
                    damage = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(damage) = damage {
        return Err(damage.into());
    }
    // The scan above does not see deleted documents; the change log lists them.
    view.changes(0, |change| {
        deleted += u64::from(change.kind == ChangeKind::Delete && range.contains(change.id));
        Ok(true)
    })?;
    Ok(Response::json(
        200,
        &json!({
            "db_name": request.param("db"),
            "partition": name,
            "doc_count": count,
            "doc_del_count": deleted,
            "sizes": { "active": bytes, "external": bytes }
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
