//! `/_session`: who is asking. There are no users yet, so everybody who reaches the server is its administrator.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use hyper::header::SET_COOKIE;
use serde_json::json;

/// Who is asking.
pub fn get(_request: &mut Request) -> Result<Response> {
    Ok(Response::json(
        200,
        &json!({
            "ok": true,
            "userCtx": { "name": null, "roles": ["_admin"] },
            "info": { "authentication_handlers": ["cookie", "default"] }
        }),
    ))
}

/// Nobody can log in where there are no users.
pub fn post(_request: &mut Request) -> Result<Response> {
    Err(Error::unauthorized("Name or password is incorrect."))
}

/// Logs out, which is easy.
pub fn delete(_request: &mut Request) -> Result<Response> {
    Ok(Response::ok(200).with_header(SET_COOKIE, "AuthSession=; Version=1; Path=/; HttpOnly"))
}
