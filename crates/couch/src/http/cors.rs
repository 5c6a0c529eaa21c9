//! CORS: the headers that allow a browser to give an answer to a page of another origin.

use super::Response;
use crate::server::Couch;
use hyper::Method;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN, VARY,
};

const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, COPY, OPTIONS";
const EXPOSED: &str = "accept-ranges, cache-control, content-length, content-range, content-type, etag, location, \
                       server, x-couchdb-body-time, x-couch-request-id, x-couch-update-newrev";

/// Answers a preflight request; `None` for any other request.
pub fn preflight(couch: &Couch, method: &Method, headers: &HeaderMap) -> Option<Response> {
    if method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let origin = allowed(couch, headers.get(ORIGIN))?;
    let mut response = Response::new(204, "text/plain", "")
        .with_header(ACCESS_CONTROL_ALLOW_METHODS, METHODS)
        .with_header(ACCESS_CONTROL_MAX_AGE, "600");
    if let Some(wanted) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok()) {
        response = response.with_header(ACCESS_CONTROL_ALLOW_HEADERS, wanted);
    }
    Some(name_origin(response, origin))
}

/// Adds CORS headers if the request states an allowed origin.
pub fn decorate(couch: &Couch, origin: Option<&HeaderValue>, response: Response) -> Response {
    match allowed(couch, origin) {
        Some(origin) => name_origin(response, origin).with_header(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED),
        None => response,
    }
}

fn name_origin(response: Response, origin: &str) -> Response {
    response
        .with_header(ACCESS_CONTROL_ALLOW_ORIGIN, origin)
        .with_header(ACCESS_CONTROL_ALLOW_CREDENTIALS, "true")
        .with_header(VARY, "Origin")
}

fn allowed<'a>(couch: &Couch, origin: Option<&'a HeaderValue>) -> Option<&'a str> {
    let origin = origin?.to_str().ok()?;
    couch.allows_origin(origin).then_some(origin)
}
