//! A socket wrapper that notices when the client does not read.
//!
//! While the socket's send buffer is full, streamed answers are not polled for more chunks, so at most a few chunks
//! wait in memory. A client that reads nothing for too long is disconnected, and so is one that does not send enough to
//! tell HTTP/1 from HTTP/2.

use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Whether a connection's client reads. Shared between the connection and its answers.
#[derive(Clone, Default)]
pub struct Pace {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The send buffer is full.
    is_full: AtomicBool,
    /// Tasks to wake when the client reads again.
    waiting: Mutex<Vec<Waker>>,
}

impl Pace {
    /// Is ready unless the send buffer is full; then the task is woken when there is room.
    pub fn poll_ready(&self, context: &Context<'_>) -> Poll<()> {
        if !self.shared.is_full.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let mut waiting = self.shared.waiting.lock();
        if !self.shared.is_full.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    fn set_full(&self, is_full: bool) {
        let mut waiting = self.shared.waiting.lock();
        self.shared.is_full.store(is_full, Ordering::Release);
        if !is_full {
            waiting.drain(..).for_each(Waker::wake);
        }
    }
}

/// The wrapped socket.
pub struct Paced<S> {
    socket: S,
    pace: Pace,
    patience: Duration,
    /// While the send buffer is full: when the client is disconnected.
    given_up: Option<Pin<Box<Sleep>>>,
    /// Until the protocol is known: how much of HTTP/2's preface has come, and when the client is disconnected.
    greeting: Option<(usize, Pin<Box<Sleep>>)>,
}

/// What a client of HTTP/2 sends first (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl<S> Paced<S> {
    /// Wraps a socket whose client may stop reading for at most `patience`, and may take `greeting` for its first bytes.
    /// It must be called in a runtime.
    pub fn new(socket: S, patience: Duration, greeting: Duration) -> Paced<S> {
        let greeting = Some((0, Box::pin(sleep(greeting))));
        Paced { socket, pace: Pace::default(), patience, given_up: None, greeting }
    }

    /// The wrapped socket.
    pub fn inner(&self) -> &S {
        &self.socket
    }

    /// Returns the pace, to be polled before an answer writes more.
    pub fn pace(&self) -> Pace {
        self.pace.clone()
    }

    /// Records the result of an attempt to write.
    fn note(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            if self.given_up.take().is_some() {
                self.pace.set_full(false);
            }
            return written;
        }
        if self.given_up.is_none() {
            self.pace.set_full(true);
        }
        let given_up = self.given_up.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        match given_up.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client does not read the answer",
            ))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(context, buffer);
        let Some((matching, deadline)) = &mut this.greeting else { return read };
        match read {
            Poll::Ready(_) => {
                let new = &buffer.filled()[before..];
                let rest = &PREFACE[*matching..];
                *matching += new.len();
                // The deadline of a request's head follows for HTTP/1, and that of HTTP/2 for its frames.
                if new.is_empty() || new.len() >= rest.len() || !rest.starts_with(new) {
                    this.greeting = None;
                }
                read
            }
            Poll::Pending => deadline
                .as_mut()
                .poll(context)
                .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not send a request"))),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.socket).poll_write(context, bytes);
        this.note(context, written)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.socket).poll_write_vectored(context, slices);
        this.note(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn pace_is_pending_while_the_client_does_not_read() {
        runtime().block_on(async {
            let (own, mut client) = tokio::io::duplex(10);
            let mut socket = Paced::new(own, Duration::from_secs(3600), Duration::from_secs(3600));
            let pace = socket.pace();
            let ready = || std::future::poll_fn(|context| pace.poll_ready(context));
            ready().await;
            let writing = tokio::spawn(async move { socket.write_all(&[0; 30]).await });
            tokio::task::yield_now().await;
            assert!(tokio::time::timeout(Duration::from_millis(5), ready()).await.is_err());
            client.read_exact(&mut [0; 30]).await.unwrap();
            ready().await;
            writing.await.unwrap().unwrap();
        });
    }

    #[test]
    fn a_client_that_reads_nothing_is_disconnected() {
        runtime().block_on(async {
            let (own, _client) = tokio::io::duplex(10);
            let mut socket = Paced::new(own, Duration::from_millis(5), Duration::from_secs(3600));
            let failed = socket.write_all(&[0; 30]).await.unwrap_err();
            assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_client_that_sends_no_request_is_disconnected() {
        runtime().block_on(async {
            for begun in ["", "PRI * HTTP"] {
                let (own, mut client) = tokio::io::duplex(100);
                client.write_all(begun.as_bytes()).await.unwrap();
                let mut socket = Paced::new(own, Duration::from_secs(3600), Duration::from_millis(5));
                let failed = socket.read_to_end(&mut Vec::new()).await.unwrap_err();
                assert_eq!(failed.kind(), io::ErrorKind::TimedOut, "{begun}");
            }
        });
    }

    #[test]
    fn a_client_whose_protocol_is_known_may_wait() {
        runtime().block_on(async {
            for begun in ["G", "PRO", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
                let (own, mut client) = tokio::io::duplex(100);
                client.write_all(begun.as_bytes()).await.unwrap();
                let mut socket = Paced::new(own, Duration::from_secs(3600), Duration::from_millis(5));
                let mut received = Vec::new();
                let reading = socket.read_to_end(&mut received);
                assert!(tokio::time::timeout(Duration::from_millis(20), reading).await.is_err(), "{begun}");
            }
        });
    }
}
