//! A database that a replication reads or writes: on this server, or behind HTTP.
//!
//! Both are spoken to in the same protocol. [`Local`] hands a request to the handler of its route on the same thread,
//! without a socket; [`Remote`] sends it. What is asked and how the answers read is said once, in the protocol.

mod local;
mod remote;

pub use local::Local;
pub use remote::{Http, Remote, kind_of};

use super::failure::Failure;
use super::stop::Stop;
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, header};
use std::io::{self, Read};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// A database of either kind.
pub trait Peer: Send + Sync {
    /// How it is named in messages: without a password.
    fn uri(&self) -> &str;

    /// Sends a request and waits for the head of its answer. An answer of any status is not a failure here.
    fn send(&self, call: Call) -> Result<Answer, Failure>;
}

/// A request about a database.
pub struct Call {
    /// The method.
    pub method: Method,
    /// What follows the database's name and a slash, escaped, with the query.
    pub path: String,
    /// Headers beside the usual ones.
    pub headers: Vec<(header::HeaderName, &'static str)>,
    /// The body.
    pub payload: Payload,
    /// Whether the body of the answer is compressed on the way if the peer can; not for feeds that wait.
    pub gzip: bool,
    /// Whether a database of this server answers before what it has written is on disk.
    pub relaxed: bool,
}

/// The body of a request.
pub enum Payload {
    /// There is none.
    Empty,
    /// JSON.
    Json(Bytes),
    /// What is read while it is sent.
    Stream {
        /// Its type.
        content_type: String,
        /// How long it is.
        length: u64,
        /// Where it comes from.
        reader: Box<dyn Read + Send>,
    },
}

impl Call {
    /// A request without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Call {
        Call {
            method,
            path: path.into(),
            headers: Vec::new(),
            payload: Payload::Empty,
            gzip: true,
            relaxed: false,
        }
    }

    /// A GET.
    pub fn get(path: impl Into<String>) -> Call {
        Call::new(Method::GET, path)
    }

    /// A POST of JSON.
    pub fn post(path: impl Into<String>, body: impl Into<Bytes>) -> Call {
        Call { payload: Payload::Json(body.into()), ..Call::new(Method::POST, path) }
    }
}

/// The answer to a request.
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, which may still be coming. Reading fails when the job is stopped.
    pub body: Box<dyn Read + Send>,
}

/// The largest answer that is read as a whole.
const WHOLE: u64 = 64 << 20;

impl Answer {
    /// Whether all went well.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// All of the body.
    pub fn bytes(self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        self.body.take(WHOLE + 1).read_to_end(&mut out)?;
        if out.len() as u64 > WHOLE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is too long"));
        }
        Ok(out)
    }

    /// The body as JSON.
    pub fn json(self) -> io::Result<serde_json::Value> {
        serde_json::from_slice(&self.bytes()?)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// What the body says of an error, in the peer's words.
    pub fn describe(self) -> (String, String) {
        let status = self.status;
        let value = self.json().unwrap_or_default();
        let text = |name: &str| value.get(name).and_then(|text| text.as_str()).map(str::to_owned);
        (
            text("error").unwrap_or_else(|| "http_error_code".to_owned()),
            text("reason").unwrap_or_else(|| status.to_string()),
        )
    }
}

/// Reads the chunks of a body from a thread that may block.
struct Chunks<S> {
    runtime: Handle,
    stop: Stop,
    source: S,
    ready: Bytes,
}

/// Where chunks come from; `None` after the last.
trait Source {
    /// The next one.
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
                // Readers of the standard library would try again for ever.
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

/// How long peers may be silent, and who may end the wait.
#[derive(Clone, Debug)]
pub struct Patience {
    /// The longest silence.
    pub silence: Duration,
    /// The end of the job.
    pub stop: Stop,
}
