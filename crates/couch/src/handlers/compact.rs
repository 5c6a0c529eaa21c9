//! `POST /{db}/_compact`, `_view_cleanup`, `_sync_shards`: upkeep on demand.

use crate::document::parse_id;
use crate::error::{Error, Result};
use crate::http::{Request, Response};

/// Removes the bodies of superseded revisions, in the background. The rest of a database is kept compact as it is
/// written.
pub fn post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    request.couch.workers.beside(move || {
        if let Err(error) = collection.compact_bodies() {
            tracing::warn!(%error, "a database was not compacted");
        }
    });
    Ok(Response::ok(202))
}

/// The same of a design document's views, which have nothing superseded.
pub fn post_design(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    let id = parse_id(&format!("_design/{}", request.param("ddoc")))?;
    if collection.get(&id.key)?.is_none() {
        return Err(Error::missing());
    }
    Ok(Response::ok(202))
}

/// Removes the indexes of views that no design document has any more, in the background.
pub fn view_cleanup(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let couch = request.couch.clone();
    request.couch.workers.beside(move || {
        if let Err(error) = couch.views.cleanup(&collection) {
            tracing::warn!(%error, "indexes of views were not cleaned up");
        }
    });
    Ok(Response::ok(202))
}

/// Brings copies on other nodes up to date, of which there are none.
pub fn sync_shards(request: &mut Request) -> Result<Response> {
    request.database()?;
    request.require_json()?;
    Ok(Response::ok(202))
}
