//! The response that handlers return.

use super::streamed::{Flow, RowWriter, Rows};
use crate::error::{Error, Result};
use diwan_kv::CommitId;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue};
use std::borrow::Cow;
use std::io;
use tokio::sync::mpsc;

/// The chunks of a feed; an error closes the connection.
pub type Feed = mpsc::Receiver<io::Result<Bytes>>;

/// The media type of BSON documents.
pub const BSON: &str = "application/bson";

/// A response.
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: ResponseBody,
    /// Whether the body is JSON of this server, and not of an attachment or a function.
    pub is_json: bool,
    /// Why a right was refused, if the audit log does not have it yet.
    pub refusal: Option<Cow<'static, str>>,
    /// The commit that must be durable before the response is sent.
    pub after: Option<CommitId>,
}

/// The body of a response.
pub enum ResponseBody {
    /// A complete body.
    Bytes(Bytes),
    /// Rows, written as the client reads.
    Rows(Rows),
    /// Chunks from a task that waits for events.
    Feed(Feed),
}

impl Response {
    /// Creates a response with a complete body.
    pub fn new(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Response {
        let mut response = Response {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: Vec::with_capacity(4),
            body: ResponseBody::Bytes(body.into()),
            is_json: false,
            refusal: None,
            after: None,
        };
        response.headers.push((CONTENT_TYPE, HeaderValue::from_static(content_type)));
        response
    }

    /// Creates a JSON response, ending in a newline like CouchDB's.
    pub fn json(status: u16, value: &serde_json::Value) -> Response {
        Response::json_text(status, value.to_string().into_bytes())
    }

    /// Creates a response from JSON text without the final newline.
    pub fn json_text(status: u16, mut text: Vec<u8>) -> Response {
        text.push(b'\n');
        let mut response = Response::new(status, "application/json", text);
        response.headers.push((CACHE_CONTROL, HeaderValue::from_static("must-revalidate")));
        response.is_json = true;
        response
    }

    /// Creates the response `{"ok":true}`.
    pub fn ok(status: u16) -> Response {
        Response::json_text(status, br#"{"ok":true}"#.to_vec())
    }

    /// Creates a JSON response whose rows are written a chunk at a time. `rows` is called until it reports the end,
    /// and returns whenever the writer is full. See [`Rows`].
    pub fn rows(rows: impl FnMut(&mut RowWriter) -> Result<Flow> + Send + 'static) -> Response {
        let mut response = Response::json_text(200, Vec::new());
        response.body = ResponseBody::Rows(Box::new(rows));
        response
    }

    /// Creates a JSON response whose chunks come from a feed.
    pub fn feed(feed: Feed) -> Response {
        let mut response = Response::json_text(200, Vec::new());
        response.body = ResponseBody::Feed(feed);
        response
    }

    /// Sets a header; an invalid value is dropped. Whoever names the type of the body writes something else than JSON.
    pub fn with_header(mut self, name: HeaderName, value: impl AsRef<str>) -> Response {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.headers.retain(|pair| pair.0 != name || name == hyper::header::SET_COOKIE);
            self.is_json &= name != CONTENT_TYPE;
            self.headers.push((name, value));
        }
        self
    }

    /// Delays the response until this commit is durable. If it never becomes durable, an error is sent instead.
    pub fn after(mut self, commit: Option<CommitId>) -> Response {
        self.after = commit;
        self
    }

    /// Sets the status.
    pub fn with_status(mut self, status: StatusCode) -> Response {
        self.status = status;
        self
    }

    /// Sets the `ETag` header, quoted.
    pub fn with_etag(self, tag: &str) -> Response {
        self.with_header(ETAG, format!("\"{tag}\""))
    }
}

impl From<Error> for Response {
    fn from(error: Error) -> Response {
        let mut response = Response::json(error.status, &error.to_json());
        response.refusal = error.is_refusal().then(|| error.reason.clone());
        for (name, value) in error.headers {
            if let Ok(name) = HeaderName::try_from(name) {
                response = response.with_header(name, value);
            }
        }
        response
    }
}
