//! Converts the result of a show or update function into a response.

use crate::error::{Error, Result};
use crate::http::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName};
use serde_json::Value;

/// Headers that functions may not set because they belong to the connection.
const RESERVED: [&str; 4] = ["connection", "content-length", "transfer-encoding", "server"];

/// Builds the response from `{code, headers, body | json | base64}`; `status` is used if the function sets no code.
pub(crate) fn answer(text: &str, status: u16) -> Result<Response> {
    let refuse = |reason: String| Error::new(500, "external_response_error", reason);
    let parsed: Value = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
    let Value::Object(members) = parsed else {
        return Err(refuse(format!("a function must return an object, not {parsed}")));
    };
    let mut response = Response::new(status, "application/json", Vec::new());
    let mut body = Vec::new();
    for (name, value) in &members {
        match (name.as_str(), value) {
            ("code", Value::Number(code)) => {
                let code =
                    code.as_u64().and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
                response.status = code.ok_or_else(|| refuse(format!("{value} is not a status")))?;
            }
            ("json", value) => {
                response = response.with_header(CONTENT_TYPE, "application/json");
                body = format!("{value}\n").into_bytes();
            }
            ("body", Value::String(text)) => {
                response = response.with_header(CONTENT_TYPE, "text/html; charset=utf-8");
                body = text.clone().into_bytes();
            }
            ("base64", Value::String(text)) => {
                response = response.with_header(CONTENT_TYPE, "application/binary");
                body = STANDARD.decode(text).map_err(|error| refuse(format!("base64: {error}")))?;
            }
            // Headers are applied last because they may override the content type. `stop` concerns list functions
            // only.
            ("headers" | "body" | "base64" | "stop", _) => {}
            (name, _) => {
                return Err(refuse(format!("Invalid data from external server: {{{name:?},{value}}}")));
            }
        }
    }
    response.body = crate::http::ResponseBody::Bytes(body.into());
    let response = with_headers(response, members.get("headers"));
    Ok(if members.contains_key("json") { response } else { sandboxed(response) })
}

/// Adds a sandbox policy: the answer may be an HTML page, and a browser must not run its scripts with this server's
/// origin. A policy set by the function is kept in addition.
pub(crate) fn sandboxed(response: Response) -> Response {
    let named = response.headers.iter().find(|(name, _)| name == CONTENT_SECURITY_POLICY);
    let policy = match named.and_then(|(_, value)| value.to_str().ok()) {
        Some(own) => format!("sandbox, {own}"),
        None => "sandbox".to_owned(),
    };
    response.with_header(CONTENT_SECURITY_POLICY, policy)
}

/// Adds the headers that a function returned.
pub(crate) fn with_headers(mut response: Response, headers: Option<&Value>) -> Response {
    for (name, value) in headers.and_then(Value::as_object).into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let Ok(name) = HeaderName::try_from(name.as_str())
            && !RESERVED.contains(&name.as_str())
        {
            response = response.with_header(name, text);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ResponseBody;

    #[test]
    fn answer_converts_results_and_refuses_malformed_ones() {
        let response =
            answer(r#"{"code":202,"json":{"a":1},"headers":{"X-A":"b","Connection":"close"}}"#, 200).unwrap();
        assert_eq!(response.status.as_u16(), 202);
        assert!(response.headers.iter().any(|(name, value)| name == "x-a" && value == "b"));
        assert!(!response.headers.iter().any(|(name, _)| name == "connection"));
        assert!(matches!(response.body, ResponseBody::Bytes(bytes) if &bytes[..] == b"{\"a\":1}\n"));
        let typed = answer(r#"{"headers":{"Content-Type":"text/plain"},"base64":"aGk="}"#, 201).unwrap();
        assert_eq!(typed.headers.iter().filter(|(name, _)| name == CONTENT_TYPE).count(), 1);
        assert_eq!(typed.status.as_u16(), 201);
        let policy = |text: &str| {
            let response = answer(text, 200).unwrap();
            let named = response.headers.iter().find(|(name, _)| name == CONTENT_SECURITY_POLICY);
            named.map(|(_, value)| value.to_str().unwrap().to_owned())
        };
        assert_eq!(policy(r#"{"body":"x"}"#).as_deref(), Some("sandbox"));
        let own = r#"{"body":"x","headers":{"Content-Security-Policy":"default-src 'self'"}}"#;
        assert_eq!(policy(own).as_deref(), Some("sandbox, default-src 'self'"));
        assert_eq!(policy(r#"{"json":1}"#), None);
        for bad in ["[]", r#"{"code":99}"#, r#"{"base64":"?"}"#, r#"{"surprise":1}"#] {
            assert_eq!(answer(bad, 200).err().unwrap().error, "external_response_error", "{bad}");
        }
    }
}
