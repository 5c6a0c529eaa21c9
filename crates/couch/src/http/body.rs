//! Request bodies, read synchronously on a blocking thread.

use crate::error::{Error, Result};
use diwan_query::{Gate, LARGE, Pass};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

/// How long a client may pause in the middle of a body.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many bytes the long bodies that are read into memory take together, and how often the bytes of one are there: as
/// they came, and as what they are parsed to.
static LONG_BODIES: Gate = Gate::new(64 << 20);
const COPIES: usize = 2;

/// A long body in memory.
struct Long {
    bytes: Vec<u8>,
    _pass: Option<Pass<'static>>,
}

impl AsRef<[u8]> for Long {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The body of a request.
#[derive(Default)]
pub enum Body {
    /// No body, or it has been taken.
    #[default]
    Empty,
    /// A body that was received completely.
    Bytes(Bytes),
    /// A body that is received while it is read.
    Stream(Box<Stream>),
    /// A body produced by a reader in this server: a spooled file, or a local replication.
    Reader(Box<dyn Read + Send>),
    /// A gzip body that has not been read yet.
    Packed(Box<Body>),
    /// A gzip body that is being read.
    Gzip(Box<flate2::read::MultiGzDecoder<Body>>),
    /// A body with an unsupported encoding of this name.
    Encoded(String, Box<Body>),
}

/// A body that is still being received.
pub struct Stream {
    incoming: Incoming,
    runtime: Handle,
    /// Received bytes that have not been read yet.
    ready: Bytes,
    /// Limits how many threads wait for uploads.
    _place: OwnedSemaphorePermit,
}

impl Body {
    /// Wraps a body that is received from a socket. Read it on a thread that may block and that holds `place`, a
    /// permit to wait for a client.
    pub fn stream(incoming: Incoming, runtime: Handle, place: OwnedSemaphorePermit) -> Body {
        Body::Stream(Box::new(Stream { incoming, runtime, ready: Bytes::new(), _place: place }))
    }

    /// Decompresses the body when it is read. Decompression does not start here because it would read from the
    /// socket.
    pub fn gunzip(self) -> Body {
        match self {
            Body::Empty => Body::Empty,
            other => Body::Packed(Box::new(other)),
        }
    }

    /// Marks the body as having an unsupported encoding: reading it fails.
    pub fn encoded(self, name: &str) -> Body {
        match self {
            Body::Empty => Body::Empty,
            other => Body::Encoded(name.to_owned(), Box::new(other)),
        }
    }

    /// Returns the body as sent, for callers that store it compressed. Call it before reading.
    pub fn into_raw(self) -> Body {
        match self {
            Body::Packed(body) | Body::Encoded(_, body) => *body,
            body => body,
        }
    }

    /// Whether the body is in memory and uncompressed, so that reading it neither waits nor expands it.
    pub fn is_whole(&self) -> bool {
        matches!(self, Body::Empty | Body::Bytes(_))
    }

    /// A copy of a body that is in memory, for a handler that has to run again. It shares the bytes.
    pub fn share(&self) -> Body {
        match self {
            Body::Bytes(bytes) => Body::Bytes(bytes.clone()),
            _ => Body::Empty,
        }
    }

    /// Reads the whole body, which may have at most `limit` bytes. A long body is first written to a file in the
    /// directory, so that it needs no memory while the client sends. Long bodies take turns to be read into memory.
    pub fn read_all(self, limit: usize, directory: Option<&Path>) -> Result<Bytes> {
        let too_large = || Error::too_large("the request entity is too large");
        match self {
            Body::Empty => Ok(Bytes::new()),
            Body::Bytes(bytes) if bytes.len() <= limit => Ok(bytes),
            Body::Bytes(_) => Err(too_large()),
            mut body => {
                let Received { mut first, length, pass } =
                    body.receive(limit.saturating_add(1), directory)?;
                if length > limit {
                    return Err(too_large());
                }
                let mut bytes = Vec::with_capacity(length);
                first.read_to_end(&mut bytes)?;
                Ok(Bytes::from_owner(Long { bytes, _pass: pass }))
            }
        }
    }

    /// Receives the first `most` bytes of the body. If they are long, they are written to a file in the directory, and this
    /// returns when it is the caller's turn to hold them in memory. The caller reads the rest of the body from here.
    pub fn receive(&mut self, most: usize, directory: Option<&Path>) -> Result<Received> {
        if let Body::Bytes(bytes) = self
            && bytes.len() < LARGE.min(most)
        {
            let bytes = std::mem::take(bytes);
            return Ok(Received { length: bytes.len(), first: Box::new(io::Cursor::new(bytes)), pass: None });
        }
        let mut bytes = Vec::new();
        self.by_ref().take(LARGE.min(most) as u64).read_to_end(&mut bytes)?;
        let mut length = bytes.len();
        if length < LARGE {
            return Ok(Received { first: Box::new(io::Cursor::new(bytes)), length, pass: None });
        }
        let mut file = match directory {
            Some(directory) => tempfile::tempfile_in(directory)?,
            None => tempfile::tempfile()?,
        };
        file.write_all(&bytes)?;
        drop(bytes);
        length += io::copy(&mut self.take((most - length) as u64), &mut file)? as usize;
        file.rewind()?;
        let pass = LONG_BODIES.enter(COPIES * length);
        Ok(Received { first: Box::new(file), length, pass })
    }
}

/// The first bytes of a body, received completely.
pub struct Received {
    /// The bytes: in memory, or in a file if they are long.
    pub first: Box<dyn Read + Send>,
    /// How many bytes they are. The body may have more only if these are as many as were asked for.
    pub length: usize,
    /// The turn to hold long bytes in memory. Drop it before waiting for the client.
    pub pass: Option<Pass<'static>>,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Body::Empty => Ok(0),
            Body::Bytes(bytes) => Ok(take(bytes, buffer)),
            Body::Stream(stream) => stream.read(buffer),
            Body::Reader(reader) => reader.read(buffer),
            Body::Packed(body) => {
                let packed = std::mem::take(body.as_mut());
                *self = Body::Gzip(Box::new(flate2::read::MultiGzDecoder::new(packed)));
                self.read(buffer)
            }
            Body::Gzip(decoder) => decoder.read(buffer).map_err(unpacking),
            Body::Encoded(name, _) => {
                let reason = format!("{name} is not a supported content encoding.");
                Err(Error::bad_content_type(reason).into())
            }
        }
    }
}

/// Converts a decompression error; errors of the underlying connection are kept.
fn unpacking(error: io::Error) -> io::Error {
    let inner = error.get_ref();
    let is_other = error.kind() == io::ErrorKind::TimedOut
        || inner.is_some_and(|inner| inner.is::<hyper::Error>() || inner.is::<Error>());
    if is_other { error } else { Error::bad_request("Request body is not properly gzipped.").into() }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.ready.is_empty() {
            let frame = self
                .runtime
                .block_on(async { tokio::time::timeout(PATIENCE, self.incoming.frame()).await })
                .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
            match frame {
                None => return Ok(0),
                Some(Err(error)) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, error)),
                // Ignore trailers.
                Some(Ok(frame)) => self.ready = frame.into_data().unwrap_or_default(),
            }
        }
        Ok(take(&mut self.ready, buffer))
    }
}

fn take(bytes: &mut Bytes, buffer: &mut [u8]) -> usize {
    let count = bytes.len().min(buffer.len());
    buffer[..count].copy_from_slice(&bytes.split_to(count));
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_all_limits_and_decompresses_bodies() {
        let body = || Body::Bytes(Bytes::from_static(b"0123456789"));
        assert_eq!(&body().read_all(10, None).unwrap()[..], b"0123456789");
        assert_eq!(body().read_all(9, None).unwrap_err().status, 413);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&[7; 100_000]).unwrap();
        let packed = Bytes::from(encoder.finish().unwrap());
        assert_eq!(Body::Bytes(packed.clone()).gunzip().read_all(100_000, None).unwrap().len(), 100_000);
        assert_eq!(Body::Bytes(packed.clone()).gunzip().read_all(99_999, None).unwrap_err().status, 413);
        for damaged in [&b"no gzip"[..], b"no gzip, but longer than the head of one", &packed[..50]] {
            let refused =
                Body::Bytes(Bytes::copy_from_slice(damaged)).gunzip().read_all(200_000, None).unwrap_err();
            let expected = (400, "Request body is not properly gzipped.");
            assert_eq!((refused.status, refused.reason.as_ref()), expected);
        }
        let long: Vec<u8> = (0..3 * LARGE as u32).map(|n| n.wrapping_mul(2_654_435_761) as u8).collect();
        let reader = || Body::Reader(Box::new(io::Cursor::new(long.clone())));
        assert!(reader().read_all(long.len(), None).unwrap() == long);
        assert_eq!(reader().read_all(long.len() - 1, None).unwrap_err().status, 413);
        let refused = body().encoded("br").read_all(100, None).unwrap_err();
        assert_eq!(
            (refused.status, refused.reason.as_ref()),
            (415, "br is not a supported content encoding.")
        );
        assert_eq!(body().encoded("br").into_raw().read_all(10, None).unwrap().len(), 10);
    }
}
