//! `POST /{db}/_compact`, `_view_cleanup`, `_sync_shards`: maintenance on demand.

use crate::document::parse_id;
use crate::error::{Error, Result};
use crate::http::{Request, Response};

/// Removes the bodies of superseded revisions in the background. Everything else is compacted continuously.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    request.couch.workers.beside(move || {
        if let Err(error) = collection.compact_bodies() {
            tracing::warn!(%error, "a database was not compacted");
        }
    });
    Ok(Response::ok(202))
}

/// Does nothing: view indexes are kept compact while they are written.
pub(crate) fn post_design(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    let id = parse_id(&format!("_design/{}", request.param("ddoc")))?;
    if collection.get(&id.key)?.is_none() {
        return Err(Error::missing());
    }
    Ok(Response::ok(202))
}

/// Removes view indexes that no design document defines any more, in the background.
pub(crate) fn view_cleanup(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let couch = request.couch.clone();
    request.couch.workers.beside(move || {
        if let Err(error) = couch.views().cleanup(&collection) {
            tracing::warn!(%error, "indexes of views were not cleaned up");
        }
    });
    Ok(Response::ok(202))
}

/// Does nothing: there are no other nodes.
pub(crate) fn sync_shards(request: &mut Request) -> Result<Response> {
    request.database()?;
    request.require_json()?;
    Ok(Response::ok(202))
}
