//! `GET /_up`: whether the server is available.

use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// Reports availability. If writes are refused, or if a follower's copy is not complete, the status is 404, which makes load
/// balancers avoid the server. A follower says how long ago it had everything that its primary had.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let store = &request.couch.store;
    if let Err(error) = store.engine().writable() {
        return Ok(Response::json(404, &json!({ "status": "read_only", "reason": error.to_string() })));
    }
    let replica = store.replica();
    Ok(match replica.primary() {
        None => Response::json(200, &json!({ "status": "ok", "seeds": {} })),
        Some(primary) => {
            let is_complete = replica.is_readable();
            let lag = replica.lag().map(|lag| lag.as_millis() as u64);
            let status = if is_complete { "ok" } else { "copying" };
            let shown = json!({
                "status": status, "seeds": {}, "role": "follower", "primary": primary.url, "lag_ms": lag
            });
            Response::json(if is_complete { 200 } else { 404 }, &shown)
        }
    })
}
