//! What a handler answers.

use crate::error::{Error, Result};
use diwan_kv::CommitId;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue};
use std::io::{self, Write};
use tokio::sync::mpsc;

/// Writes the rows of a response; runs on the request's blocking thread once the head is sent.
pub type Rows = Box<dyn FnOnce(&mut RowWriter) -> io::Result<()> + Send>;

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
    /// The same, when the beginning has come already.
    Begun(Bytes, Feed),
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

    /// JSON whose rows are written as they are read.
    pub fn rows(rows: impl FnOnce(&mut RowWriter) -> io::Result<()> + Send + 'static) -> Response {
        let mut response = Response::json_text(200, Vec::new());
        response.body = ResponseBody::Rows(Box::new(rows));
        response
    }

    /// JSON whose rows are written as they are read, by who may fail before the first of them: so the answer waits until
    /// enough has been written to be sent, or all. To be called from a thread that may block.
    pub fn tried_rows(rows: impl FnOnce(&mut RowWriter) -> Result<()> + Send + 'static) -> Result<Response> {
        let (sender, mut chunks) = mpsc::channel(CHUNKS);
        let (refusal, refused) = std::sync::mpsc::sync_channel(1);
        tokio::task::spawn_blocking(move || {
            let mut writer = RowWriter::new(sender);
            let written = rows(&mut writer).and_then(|()| Ok(writer.flush()?));
            match written {
                Err(error) if writer.sent => {
                    if !writer.is_abandoned() {
                        tracing::warn!(%error, "a response broke off");
                        writer.abort(io::Error::other(error));
                    }
                }
                outcome => drop(refusal.send(outcome)),
            }
        });
        let mut response = Response::json_text(200, Vec::new());
        response.body = match chunks.blocking_recv() {
            Some(Ok(first)) => ResponseBody::Begun(first, chunks),
            Some(Err(error)) => return Err(error.into()),
            None => {
                refused.recv().map_err(|_| Error::internal("The request met a fault of the server."))??;
                ResponseBody::Bytes(Bytes::new())
            }
        };
        Ok(response)
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

/// How many chunks of a response may wait for a slow client.
pub(super) const CHUNKS: usize = 4;
/// How many bytes are gathered before they are sent.
const CHUNK: usize = 32 << 10;

/// Where the rows of a response go. Waits when the client is slow, and fails when it has gone.
pub struct RowWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
    /// Something was sent already.
    sent: bool,
}

impl RowWriter {
    pub(crate) fn new(sender: mpsc::Sender<io::Result<Bytes>>) -> RowWriter {
        RowWriter { sender, buffer: Vec::with_capacity(CHUNK + 4096), sent: false }
    }

    /// The buffer, for who appends to it directly; [`RowWriter::row_done`] must follow.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Whether enough was gathered to be sent.
    pub fn is_full(&self) -> bool {
        self.buffer.len() >= CHUNK
    }

    /// Whether nobody waits for the response any more.
    pub fn is_abandoned(&self) -> bool {
        self.sender.is_closed()
    }

    /// An error in the middle of the response, which can only be broken off: quietly if nobody waits for it.
    pub fn failure(&self, error: Error) -> io::Error {
        match self.is_abandoned() {
            true => io::ErrorKind::BrokenPipe.into(),
            false => io::Error::other(error),
        }
    }

    /// Sends what was gathered if it is enough.
    pub fn row_done(&mut self) -> io::Result<()> {
        if self.is_full() { self.flush() } else { Ok(()) }
    }

    /// Breaks the response off, so that the client does not take it for complete.
    pub(crate) fn abort(&mut self, error: io::Error) {
        let _ = self.sender.blocking_send(Err(error));
    }
}

impl Write for RowWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        self.row_done()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.sent = true;
        let chunk = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK + 4096));
        self.sender.blocking_send(Ok(chunk.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
