//! A request's body, read synchronously from a blocking thread.

use crate::error::{Error, Result};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use std::io::{self, Read};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

/// How long a client may be silent in the middle of a body.
const PATIENCE: Duration = Duration::from_secs(60);

/// The body of a request.
#[derive(Default)]
pub enum Body {
    /// There is none, or it was taken.
    #[default]
    Empty,
    /// It came as a whole.
    Bytes(Bytes),
    /// It comes as it is read.
    Stream(Box<Stream>),
    /// It is read from elsewhere in this server.
    Reader(Box<dyn Read + Send>),
    /// The same, compressed on the way, and not read yet.
    Packed(Box<Body>),
    /// The same, as it is read.
    Gzip(Box<flate2::read::MultiGzDecoder<Body>>),
    /// It came in an encoding of this name, which nobody here can undo.
    Encoded(String, Box<Body>),
}

/// A body that is still coming.
pub struct Stream {
    incoming: Incoming,
    runtime: Handle,
    /// What has come and was not read yet.
    ready: Bytes,
    /// The place of the thread that waits for it.
    _place: OwnedSemaphorePermit,
}

impl Body {
    /// A body that comes through the runtime's sockets. To be read from a thread that may block, and that has a place
    /// among those that may wait for clients.
    pub fn stream(incoming: Incoming, runtime: Handle, place: OwnedSemaphorePermit) -> Body {
        Body::Stream(Box::new(Stream { incoming, runtime, ready: Bytes::new(), _place: place }))
    }

    /// The same body, to be decompressed when it is read: not before, as that would already read.
    pub fn gunzip(self) -> Body {
        match self {
            Body::Empty => Body::Empty,
            other => Body::Packed(Box::new(other)),
        }
    }

    /// The same body, which is refused when it is read.
    pub fn encoded(self, name: &str) -> Body {
        match self {
            Body::Empty => Body::Empty,
            other => Body::Encoded(name.to_owned(), Box::new(other)),
        }
    }

    /// The body as it was sent, for who keeps it compressed. To be called before it is read.
    pub fn into_raw(self) -> Body {
        match self {
            Body::Packed(body) | Body::Encoded(_, body) => *body,
            body => body,
        }
    }

    /// Whether nothing is there to read, as far as is known without reading.
    pub fn is_empty(&self) -> bool {
        match self {
            Body::Empty => true,
            Body::Bytes(bytes) => bytes.is_empty(),
            _ => false,
        }
    }

    /// Whether all of it is here as it is, so that reading it neither waits nor yields much more than was sent.
    pub fn is_whole(&self) -> bool {
        matches!(self, Body::Empty | Body::Bytes(_))
    }

    /// All of it, at most `limit` bytes.
    pub fn read_all(self, limit: usize) -> Result<Bytes> {
        let too_large = || Error::too_large("the request entity is too large");
        match self {
            Body::Empty => Ok(Bytes::new()),
            Body::Bytes(bytes) if bytes.len() <= limit => Ok(bytes),
            Body::Bytes(_) => Err(too_large()),
            mut body => {
                let mut out = Vec::new();
                body.by_ref().take(limit as u64 + 1).read_to_end(&mut out)?;
                if out.len() > limit { Err(too_large()) } else { Ok(out.into()) }
            }
        }
    }
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

/// What is told of a body that could not be decompressed, unless it broke off before.
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
                // Trailers carry nothing that is asked for.
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
    use std::io::Write;

    #[test]
    fn bodies_are_bounded_and_decompressed() {
        let body = || Body::Bytes(Bytes::from_static(b"0123456789"));
        assert_eq!(&body().read_all(10).unwrap()[..], b"0123456789");
        assert_eq!(body().read_all(9).unwrap_err().status, 413);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&[7; 100_000]).unwrap();
        let packed = Bytes::from(encoder.finish().unwrap());
        assert_eq!(Body::Bytes(packed.clone()).gunzip().read_all(100_000).unwrap().len(), 100_000);
        assert_eq!(Body::Bytes(packed.clone()).gunzip().read_all(99_999).unwrap_err().status, 413);
        for damaged in [&b"no gzip"[..], b"no gzip, but longer than the head of one", &packed[..50]] {
            let refused =
                Body::Bytes(Bytes::copy_from_slice(damaged)).gunzip().read_all(200_000).unwrap_err();
            let expected = (400, "Request body is not properly gzipped.");
            assert_eq!((refused.status, refused.reason.as_ref()), expected);
        }
        let refused = body().encoded("br").read_all(100).unwrap_err();
        assert_eq!(
            (refused.status, refused.reason.as_ref()),
            (415, "br is not a supported content encoding.")
        );
        assert_eq!(body().encoded("br").into_raw().read_all(10).unwrap().len(), 10);
    }
}
