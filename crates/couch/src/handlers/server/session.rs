//! `/_session`: the current user. There are no users yet, so every client is an administrator.

use crate::error::{Error, Result};
use crate::http::{Request, Response};
use hyper::header::SET_COOKIE;
use serde_json::json;

/// Describes the session.
pub(crate) fn get(_request: &mut Request) -> Result<Response> {
    Ok(Response::json(
        200,
        &json!({
            "ok": true,
            "userCtx": { "name": null, "roles": ["_admin"] },
            "info": { "authentication_handlers": ["cookie", "default"] }
        }),
    ))
}

/// Refuses a login, as there are no users.
pub(crate) fn post(_request: &mut Request) -> Result<Response> {
    Err(Error::unauthorized("Name or password is incorrect."))
}

/// Logs out.
pub(crate) fn delete(_request: &mut Request) -> Result<Response> {
    Ok(Response::ok(200).with_header(SET_COOKIE, "AuthSession=; Version=1; Path=/; HttpOnly"))
}
