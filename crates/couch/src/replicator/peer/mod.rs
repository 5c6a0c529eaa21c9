//! The databases that a replication reads and writes: local or remote.
//!
//! Both are accessed by the same requests. [`Local`] calls the handler of the route on the current thread, without a
//! socket; [`Remote`] sends the request over HTTP. The `protocol` module defines the requests and parses the answers.

mod local;
mod remote;
mod session;
mod trust;

pub(super) use local::Local;
pub(super) use remote::{Http, Remote, Security, kind_of};
pub(super) use trust::Trust;

use super::failure::Failure;
use super::stop::Stop;
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, header};
use std::io::{self, Read};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// A database, local or remote.
pub(super) trait Peer: Send + Sync {
    /// The database's name for messages, without a password.
    fn uri(&self) -> &str;

    /// Sends a request and waits for the head of the answer. Any status counts as an answer, not as a failure.
    fn send(&self, call: Call) -> Result<Answer, Failure>;
}

/// A request to a database.
pub(super) struct Call {
    /// The method.
    pub(crate) method: Method,
    /// The escaped path below the database, with the query.
    pub(crate) path: String,
    /// Additional headers.
    pub(crate) headers: Vec<(header::HeaderName, &'static str)>,
    /// The body.
    pub(crate) payload: Payload,
    /// Whether the answer may be compressed in transit. False for continuous feeds.
    pub(crate) gzip: bool,
    /// Whether a local database may answer before the write is durable.
    pub(crate) relaxed: bool,
}

/// The body of a request.
pub(super) enum Payload {
    /// No body.
    Empty,
    /// JSON text.
    Json(Bytes),
    /// BSON documents.
    Bson(Bytes),
    /// A body that is read while it is sent.
    Stream {
        /// The content type.
        content_type: String,
        /// The length in bytes.
        length: u64,
        /// The source of the bytes.
        reader: Box<dyn Read + Send>,
    },
}

impl Call {
    /// Creates a request without a body.
    pub(super) fn new(method: Method, path: impl Into<String>) -> Call {
        Call {
            method,
            path: path.into(),
            headers: Vec::new(),
            payload: Payload::Empty,
            gzip: true,
            relaxed: false,
        }
    }

    /// The same request once more; `None` if its body can be read only once.
    fn again(&self) -> Option<Call> {
        let payload = match &self.payload {
            Payload::Empty => Payload::Empty,
            Payload::Json(bytes) => Payload::Json(bytes.clone()),
            Payload::Bson(bytes) => Payload::Bson(bytes.clone()),
            Payload::Stream { .. } => return None,
        };
        Some(Call {
            method: self.method.clone(),
            path: self.path.clone(),
            headers: self.headers.clone(),
            payload,
            gzip: self.gzip,
            relaxed: self.relaxed,
        })
    }

    /// Creates a `GET` request.
    pub(super) fn get(path: impl Into<String>) -> Call {
        Call::new(Method::GET, path)
    }

    /// Creates a `POST` request with JSON.
    pub(super) fn post(path: impl Into<String>, body: impl Into<Bytes>) -> Call {
        Call { payload: Payload::Json(body.into()), ..Call::new(Method::POST, path) }
    }
}

/// The answer to a request.
pub(super) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body, which may still be arriving. Reading fails when the job is stopped.
    pub(crate) body: Box<dyn Read + Send>,
}

/// The largest answer that is read into memory.
const WHOLE: u64 = 64 << 20;

impl Answer {
    /// Whether the status is 2xx.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Reads the whole body.
    pub(super) fn bytes(self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        self.body.take(WHOLE + 1).read_to_end(&mut out)?;
        if out.len() as u64 > WHOLE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is too long"));
        }
        Ok(out)
    }

    /// Reads the body as JSON.
    pub(super) fn json(self) -> io::Result<serde_json::Value> {
        serde_json::from_slice(&self.bytes()?)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Returns the `error` and `reason` of an error answer.
    pub(super) fn describe(self) -> (String, String) {
        let status = self.status;
        let value = self.json().unwrap_or_default();
        let text = |name: &str| value.get(name).and_then(|text| text.as_str()).map(str::to_owned);
        (
            text("error").unwrap_or_else(|| "http_error_code".to_owned()),
            text("reason").unwrap_or_else(|| status.to_string()),
        )
    }
}

/// Reads the chunks of a body on a blocking thread.
struct Chunks<S> {
    runtime: Handle,
    stop: Stop,
    source: S,
    ready: Bytes,
}

/// A source of chunks.
trait Source {
    /// Returns the next chunk; `None` after the last.
    fn next(&mut self) -> impl Future<Output = io::Result<Option<Bytes>>>;
}

impl Source for mpsc::Receiver<io::Result<Bytes>> {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        self.recv().await.transpose()
    }
}

impl<S: Source> Read for Chunks<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.ready.is_empty() {
            let (stop, source) = (&self.stop, &mut self.source);
            let next = self.runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = stop.stopped() => Err(io::Error::new(io::ErrorKind::Interrupted, Failure::stopped())),
                    chunk = source.next() => chunk,
                }
            });
            match next {
                // `Interrupted` would make the standard library's readers retry forever.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, Failure::stopped()));
                }
                Err(error) => return Err(error),
                Ok(None) => return Ok(0),
                Ok(Some(chunk)) => self.ready = chunk,
            }
        }
        let count = self.ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.ready.split_to(count));
        Ok(count)
    }
}

/// The cookie `AuthSession` that an answer sets, as a request sends it back.
fn answer_cookie(headers: &HeaderMap) -> Option<header::HeaderValue> {
    let set = headers.get_all(header::SET_COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let pair = set
        .filter_map(|text| text.split(';').next())
        .find(|pair| pair.trim().strip_prefix("AuthSession=").is_some_and(|value| !value.is_empty()))?;
    let mut cookie = header::HeaderValue::from_str(pair.trim()).ok()?;
    cookie.set_sensitive(true);
    Some(cookie)
}

/// How long to wait for a peer.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    /// The longest silence.
    pub(crate) silence: Duration,
    /// Stops the wait when the job ends.
    pub(crate) stop: Stop,
}
