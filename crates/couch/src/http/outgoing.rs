//! Bodies sent to a socket: of a response to a client, or of a request to a peer.

use super::paced::Pace;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// A body, complete or streamed.
pub enum Outgoing {
    /// No body, or nothing left of it.
    Empty,
    /// A complete body.
    Whole(Bytes),
    /// A body that is still being written.
    Chunks(Chunks),
}

/// A streamed body.
pub struct Chunks {
    /// The first chunk, if it is ready.
    pub first: Option<Bytes>,
    /// The following chunks.
    pub rest: mpsc::Receiver<io::Result<Bytes>>,
    /// What follows when all chunks have come.
    pub last: Option<Bytes>,
    /// The total length, if known.
    pub length: Option<u64>,
    /// Whether the receiver is reading.
    pub pace: Pace,
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        if let Outgoing::Chunks(chunks) = body {
            if chunks.pace.poll_ready(context).is_pending() {
                return Poll::Pending;
            }
            if let Some(first) = chunks.first.take() {
                return Poll::Ready(Some(Ok(Frame::data(first))));
            }
            return chunks.rest.poll_recv(context).map(|chunk| match chunk {
                Some(Ok(chunk)) => Some(Ok(Frame::data(chunk))),
                // A body that breaks off must not look complete.
                Some(Err(error)) => {
                    chunks.last = None;
                    Some(Err(error))
                }
                None => chunks.last.take().map(|last| Ok(Frame::data(last))),
            });
        }
        Poll::Ready(match std::mem::replace(body, Outgoing::Empty) {
            Outgoing::Whole(bytes) => Some(Ok(Frame::data(bytes))),
            _ => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Outgoing::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Empty => SizeHint::with_exact(0),
            Outgoing::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Outgoing::Chunks(chunks) => chunks.length.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
