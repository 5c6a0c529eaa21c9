//! URLs of documents in answers.

use crate::http::Request;
use hyper::header::HOST;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that are not escaped in a path segment.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b':');

/// Formats the `Location` header for a path of these segments.
pub(crate) fn location(request: &Request, parts: &[&str]) -> String {
    let mut out = own_origin(request);
    for part in parts {
        out.push('/');
        out.extend(utf8_percent_encode(part, PLAIN));
    }
    out
}

/// Formats the origin under which the client reached this server.
pub(crate) fn own_origin(request: &Request) -> String {
    let scheme = match request.named_header("x-forwarded-ssl") {
        Some("on") => "https",
        _ => request.named_header("x-forwarded-proto").unwrap_or("http"),
    };
    let host =
        request.named_header("x-forwarded-host").or_else(|| request.header(HOST)).unwrap_or("localhost");
    format!("{scheme}://{host}")
}
