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
    let scheme = match forwarded(request, "x_forwarded_ssl") {
        Some("on") => "https",
        _ => forwarded(request, "x_forwarded_proto").unwrap_or(if request.is_tls { "https" } else { "http" }),
    };
    let host = forwarded(request, "x_forwarded_host").or_else(|| request.header(HOST)).unwrap_or("localhost");
    format!("{scheme}://{host}")
}

/// Returns a header of a proxy. A setting names the header.
pub(crate) fn forwarded<'a>(request: &'a Request, setting: &str) -> Option<&'a str> {
    let name = request.couch.setting("chttpd", setting)?;
    request.named_header(&name)
}
