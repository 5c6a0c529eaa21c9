//! `GET /{db}/_design/{ddoc}/_info`: describes the index of a design document's views.

use crate::error::Result;
use crate::http::{Request, Response};
use diwan_script::collate;
use serde_json::json;

/// Describes the index.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    let design = request.design(&collection)?;
    let info = request.couch.views().info(&collection, &design)?;
    Ok(Response::json(
        200,
        &json!({
            "name": request.param("ddoc"),
            "view_index": {
                "signature": info.signature,
                "language": info.language,
                "sizes": { "file": info.file_bytes, "external": info.external_bytes, "active": info.external_bytes },
                "updates_pending": { "minimum": info.pending, "preferred": info.pending, "total": info.pending },
                "updater_running": info.updater_running,
                "compact_running": false,
                "waiting_commit": false,
                "waiting_clients": info.waiting_clients,
                "collator_versions": [collate::VERSION],
                "update_seq": info.update_seq,
                "purge_seq": 0
            }
        }),
    ))
}
