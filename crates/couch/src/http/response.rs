//! What a handler answers.

use super::streamed::{Flow, RowWriter, Rows};
use crate::error::{Error, Result};
use diwan_kv::CommitId;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue};
use std::io;
use tokio::sync::mpsc;

/// The chunks of a feed, from whoever writes them; an error breaks the connection off.
pub type Feed = mpsc::Receiver<io::Result<Bytes>>;

/// A response.
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: ResponseBody,
    /// The commit that must be durable before anything of this is sent.
    pub after: Option<CommitId>,
}

/// The body of a response.
pub enum ResponseBody {
    /// All of it.
    Bytes(Bytes),
    /// Written as it is read.
    Rows(Rows),
    /// Comes in its own time.
    Feed(Feed),
}

impl Response {
    /// A response of this type.
    pub fn new(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Response {
        let mut response = Response {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: Vec::with_capacity(4),
            body: ResponseBody::Bytes(body.into()),
            after: None,
        };
        response.headers.push((CONTENT_TYPE, HeaderValue::from_static(content_type)));
        response
    }

    /// A JSON value, with the newline that CouchDB ends it with.
    pub fn json(status: u16, value: &serde_json::Value) -> Response {
        Response::json_text(status, value.to_string().into_bytes())
    }

    /// JSON that is written already, without its last newline.
    pub fn json_text(status: u16, mut text: Vec<u8>) -> Response {
        text.push(b'\n');
        let mut response = Response::new(status, "application/json", text);
        response.headers.push((CACHE_CONTROL, HeaderValue::from_static("must-revalidate")));
        response
    }

    /// `{"ok":true}`.
    pub fn ok(status: u16) -> Response {
        Response::json_text(status, br#"{"ok":true}"#.to_vec())
    }

    /// JSON whose rows are written as they are read, a chunk at a time: `rows` is called until it says that all is done,
    /// and returns whenever the writer is full. See [`Rows`].
    pub fn rows(rows: impl FnMut(&mut RowWriter) -> Result<Flow> + Send + 'static) -> Response {
        let mut response = Response::json_text(200, Vec::new());
        response.body = ResponseBody::Rows(Box::new(rows));
        response
    }

    /// JSON that comes in its own time.
    pub fn feed(feed: Feed) -> Response {
        let mut response = Response::json_text(200, Vec::new());
        response.body = ResponseBody::Feed(feed);
        response
    }

    /// With one more header; a value that no header can have is left out.
    pub fn with_header(mut self, name: HeaderName, value: impl AsRef<str>) -> Response {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.headers.retain(|pair| pair.0 != name || name == hyper::header::SET_COOKIE);
            self.headers.push((name, value));
        }
        self
    }

    /// To be sent once this commit is durable; whoever sends it waits, or answers why it never will be.
    pub fn after(mut self, commit: Option<CommitId>) -> Response {
        self.after = commit;
        self
    }

    /// With another status.
    pub fn with_status(mut self, status: StatusCode) -> Response {
        self.status = status;
        self
    }

    /// With an `ETag` of this text, quoted.
    pub fn with_etag(self, tag: &str) -> Response {
        self.with_header(ETAG, format!("\"{tag}\""))
    }
}

impl From<Error> for Response {
    fn from(error: Error) -> Response {
        let mut response = Response::json(error.status, &error.to_json());
        for (name, value) in error.headers {
            if let Ok(name) = HeaderName::try_from(name) {
                response = response.with_header(name, value);
            }
        }
        response
    }
}
