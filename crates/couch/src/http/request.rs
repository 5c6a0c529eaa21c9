//! The request that handlers receive.

use super::{Body, Query, Response};
use crate::error::{Error, Result};
use crate::server::Couch;
use diwan_access::Caller;
use diwan_query::Interrupt;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, IF_NONE_MATCH};
use hyper::{Method, body::Bytes};
use std::net::IpAddr;
use std::sync::Arc;

/// The header with which a replicator states that its target stores integers of any size.
pub const EXACT_INTEGERS: &str = "x-diwan-exact-integers";

/// A routed request, whose body has not been read yet.
pub struct Request {
    /// The server's state.
    pub couch: Arc<Couch>,
    /// The address of the connection's other end, which may be a proxy.
    pub peer: IpAddr,
    /// The address of this end of the connection.
    pub local: IpAddr,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
    /// Who makes the request.
    pub caller: Caller,
    /// How he signed in.
    pub handler: Option<&'static str>,
    /// The method.
    pub method: Method,
    /// The path as sent, without the query.
    pub path: String,
    /// The values of the route's placeholders, percent-decoded.
    pub params: Vec<(&'static str, String)>,
    /// The parsed query string.
    pub query: Query,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Body,
    /// Killed when the client no longer waits for the answer.
    pub interrupt: Interrupt,
    /// Whether the handler's thread may wait for others. It must not while it serves other connections, too.
    pub may_wait: bool,
}

impl Request {
    /// Ends the wait of a write for a transaction. `None` if the write must fail instead of waiting.
    pub fn waiting(&self) -> Option<&Interrupt> {
        self.may_wait.then_some(&self.interrupt)
    }

    /// Returns the value of a placeholder, or an empty string.
    pub fn param(&self, name: &str) -> &str {
        self.params.iter().find(|pair| pair.0 == name).map_or("", |pair| pair.1.as_str())
    }

    /// Returns a header as text.
    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns a header that has no constant.
    pub fn named_header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the content type in lower case, without parameters.
    pub fn content_type(&self) -> Option<String> {
        let text = self.header(hyper::header::CONTENT_TYPE)?;
        Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }

    /// Whether the client accepts this type, by CouchDB's rule: a missing `Accept` and `*/*` accept everything.
    pub fn takes(&self, kind: &str) -> bool {
        let Some(accept) = self.header(hyper::header::ACCEPT) else { return true };
        let family = kind.split('/').next().unwrap_or_default();
        let mut taken = false;
        for choice in accept.split(',') {
            let mut parts = choice.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let refused = parts
                .filter_map(|part| part.strip_prefix("q="))
                .any(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0));
            let of_family = name.strip_suffix("/*") == Some(family);
            if refused && (name == kind || of_family) {
                return false;
            }
            taken |= !refused && (name == kind || name == "*/*" || of_family);
        }
        taken
    }

    /// Returns a 304 response if the client already has the answer with this `ETag`.
    pub fn not_modified(&self, tag: &str) -> Option<Response> {
        let known = self.header(IF_NONE_MATCH)?;
        let has_it = known
            .split(',')
            .map(|known| known.trim())
            .map(|known| known.strip_prefix("W/").unwrap_or(known))
            .any(|known| known.strip_prefix('"').and_then(|known| known.strip_suffix('"')) == Some(tag));
        has_it.then(|| {
            let mut response = Response::new(304, "application/json", "");
            response.headers.clear();
            response.with_etag(tag).with_header(CONTENT_LENGTH, "0")
        })
    }

    /// Whether the client stores integers of any size exactly: CouchDB's replicator, or a client that sends
    /// [`EXACT_INTEGERS`].
    pub fn keeps_integers(&self) -> bool {
        self.named_header(EXACT_INTEGERS).is_some()
            || self
                .header(hyper::header::USER_AGENT)
                .is_some_and(|agent| agent.starts_with("CouchDB-Replicator"))
    }

    /// Takes the body, which can be read once.
    pub fn take_body(&mut self) -> Body {
        std::mem::take(&mut self.body)
    }

    /// Reads the whole body, up to the limit for requests in memory.
    pub fn read_body(&mut self) -> Result<Bytes> {
        let limit = self.couch.max_request_bytes();
        let directory = self.couch.config.temporary.clone();
        self.take_body().read_all(limit, directory.as_deref())
    }

    /// Reads the body as JSON. As in CouchDB, an empty body is an error.
    pub fn read_json(&mut self) -> Result<serde_json::Value> {
        parse_json(&self.read_body()?)
    }

    /// Reads the body as a JSON object.
    pub fn read_object(&mut self) -> Result<serde_json::Map<String, serde_json::Value>> {
        object(self.read_json()?)
    }

    /// Reads the body as a JSON object; `None` if it is empty.
    pub fn read_object_if_any(&mut self) -> Result<Option<serde_json::Map<String, serde_json::Value>>> {
        let bytes = self.read_body()?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        parse_json(&bytes).and_then(object).map(Some)
    }

    /// Like CouchDB, refuses a body whose content type is not JSON.
    pub fn require_json(&self) -> Result<()> {
        match self.content_type().as_deref() {
            Some("application/json") => Ok(()),
            _ => Err(Error::bad_content_type("Content-Type must be application/json")),
        }
    }
}

fn parse_json(bytes: &[u8]) -> Result<serde_json::Value> {
    serde_json::from_slice(bytes).map_err(|error| {
        let position = position_of(bytes, error.line(), error.column());
        Error::invalid_json(position, error)
    })
}

fn object(value: serde_json::Value) -> Result<serde_json::Map<String, serde_json::Value>> {
    match value {
        serde_json::Value::Object(object) => Ok(object),
        _ => Err(Error::no_object()),
    }
}

/// Refuses a body that starts like a JSON value other than an object. Other errors are left to the parser.
pub fn begins_as_object(text: &[u8]) -> Result<()> {
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => Err(Error::no_object()),
        _ => Ok(()),
    }
}

/// Converts a line and a column, both starting at 1, to a byte offset.
fn position_of(bytes: &[u8], line: usize, column: usize) -> usize {
    let start: usize =
        bytes.split(|&byte| byte == b'\n').take(line.saturating_sub(1)).map(|line| line.len() + 1).sum();
    start + column.saturating_sub(1)
}
