//! `GET /_up`: can the server answer.

use crate::error::Result;
use crate::http::{Request, Response};
use serde_json::json;

/// Says so.
pub fn get(_request: &mut Request) -> Result<Response> {
    Ok(Response::json(200, &json!({ "status": "ok", "seeds": {} })))
}
