//! `/_session`: the current user, and sessions that a cookie continues.

use crate::auth::{self, Attempt};
use crate::document::own_origin;
use crate::error::{Error, Result};
use crate::http::{Flow, Query, Request, Response};
use diwan_access::Principal;
use hyper::StatusCode;
use hyper::header::{LOCATION, SET_COOKIE};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::time::Instant;

/// Describes the session.
pub(crate) fn get(request: &mut Request) -> Result<Response> {
    let couch = &request.couch;
    let name = request.caller.http_name();
    let is_user = request.caller.is_server_admin() || name.is_some();
    if !is_user && request.query.get("basic") == Some("true") {
        return Err(Error::unauthorized("Please login."));
    }
    let mut info = Map::new();
    info.insert("authentication_handlers".into(), json!(auth::handler_names(couch)));
    if let Some(handler) = request.handler {
        info.insert("authenticated".into(), json!(handler));
    }
    info.insert("authentication_db".into(), json!(couch.setting("chttpd_auth", "authentication_db")));
    Ok(Response::json(
        200,
        &json!({
            "ok": true,
            "userCtx": { "name": name, "roles": request.caller.http_roles() },
            "info": info
        }),
    ))
}

/// Begins a session. The answer waits without a thread while sign-ins are slowed down, and while others are checked.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let (name, password) = credentials(request)?;
    let next = redirection(request, "next");
    let fail = redirection(request, "fail");
    let couch = request.couch.clone();
    let is_tls = request.is_tls;
    let attempt = Attempt::begin(&couch, name, password, request.peer, request.local)?;
    Ok(Response::rows(move |out| {
        if Instant::now() < attempt.ready {
            return Ok(Flow::Later);
        }
        let Some(_place) = couch.workers.sign_in() else { return Ok(Flow::Later) };
        let (status, cookie, body, location) = match attempt.check(&couch) {
            Ok(user) => {
                let cookie = auth::new_cookie(&couch, &user, is_tls)?;
                (StatusCode::OK, cookie, welcome(&user), next.clone())
            }
            Err(error) if error.status == 401 => {
                let cookie = auth::cleared_cookie(&couch, is_tls);
                (StatusCode::UNAUTHORIZED, cookie, error.to_json(), fail.clone())
            }
            Err(error) => return Err(error),
        };
        writeln!(out, "{body}")?;
        out.change_head(move |response| {
            let response = response.with_header(SET_COOKIE, cookie);
            match location {
                Some(location) => response.with_status(StatusCode::FOUND).with_header(LOCATION, location),
                None => response.with_status(status),
            }
        });
        Ok(Flow::Done)
    }))
}

fn welcome(user: &Principal) -> Value {
    json!({ "ok": true, "name": user.http_name, "roles": user.http_roles })
}

/// Reads the name and the password from a form or from JSON.
fn credentials(request: &mut Request) -> Result<(String, String)> {
    let kind = request.content_type();
    let fields: Map<String, Value> = match kind.as_deref() {
        Some("application/x-www-form-urlencoded") => {
            let body = request.read_body()?;
            let form = Query::parse(&String::from_utf8_lossy(&body));
            form.iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
        }
        Some("application/json") => request.read_object()?,
        _ => Map::new(),
    };
    let text = |name: &str| match fields.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Error::bad_request(format!("`{name}` must be a string"))),
    };
    let name = match (text("username")?, text("name")?) {
        (None, None) => return Err(Error::bad_request("request body must contain a username")),
        (Some(one), Some(other)) if one != other => {
            return Err(Error::bad_request("request body contains different usernames"));
        }
        (Some(name), _) | (None, Some(name)) => name,
    };
    Ok((name, text("password")?.unwrap_or_default()))
}

/// The URL to which a parameter redirects. It stays on this server: anything but a path is left out.
fn redirection(request: &Request, parameter: &str) -> Option<String> {
    let path = request.query.get(parameter)?;
    let is_path = path.starts_with('/') && !path.starts_with("//") && !path.contains(['\\', '\r', '\n']);
    is_path.then(|| format!("{}{path}", own_origin(request)))
}

/// Ends the session.
pub(crate) fn delete(request: &mut Request) -> Result<Response> {
    let cookie = auth::cleared_cookie(&request.couch, request.is_tls);
    let response = Response::ok(200).with_header(SET_COOKIE, cookie);
    Ok(match redirection(request, "next") {
        Some(location) => response.with_status(StatusCode::FOUND).with_header(LOCATION, location),
        None => response,
    })
}
