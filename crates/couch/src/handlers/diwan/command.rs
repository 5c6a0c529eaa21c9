//! `POST /_diwan/command/{database}`: runs a command of MongoDB.

use crate::config::Command;
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use diwan_value::extjson;
use diwan_value::json::{Mode, write_document};
use diwan_value::{Doc, Value};

/// MongoDB's codes that have a status of their own.
const STATUSES: [(i64, u16); 7] =
    [(13, 403), (26, 404), (59, 404), (91, 503), (189, 503), (11600, 503), (11602, 503)];

/// Runs the command with the rights of the request's caller.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    request.require_json()?;
    let bytes = request.read_body()?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Error::bad_request("The body is not UTF-8."))?;
    let body = extjson::parse(text).map_err(|error| Error::bad_request(error.to_string()))?;
    let mode = if request.query.flag("canonical")? { Mode::Canonical } else { Mode::Relaxed };
    let Some(run) = &request.couch.config.commands else {
        return Err(Error::not_implemented("This server has no MongoDB face."));
    };
    let reply = run(Command {
        caller: &request.caller,
        peer: request.peer,
        database: request.param("database"),
        body: body.as_doc(),
        interrupt: request.interrupt.clone(),
    });
    let mut out = Vec::new();
    write_document(&mut out, reply.as_doc(), mode);
    Ok(Response::json_text(status(reply.as_doc()), out))
}

fn status(reply: Doc<'_>) -> u16 {
    let number = |value: Option<Value<'_>>| value.and_then(Value::as_i64_exact);
    if number(reply.get("ok")) == Some(1) {
        return 200;
    }
    let code = number(reply.get("code"));
    STATUSES.iter().find(|(known, _)| Some(*known) == code).map_or(400, |(_, status)| *status)
}
