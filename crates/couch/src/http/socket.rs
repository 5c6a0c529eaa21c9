//! The socket of a connection, with TLS or without.

use crate::config::TlsConfigs;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take for the TLS handshake, and how long if many are incomplete.
const PATIENCE: Duration = Duration::from_secs(10);
const LITTLE_PATIENCE: Duration = Duration::from_secs(2);
/// How many incomplete handshakes are many.
const MANY: usize = 256;

/// A socket.
pub enum Socket {
    /// A plain one.
    Plain(TcpStream),
    /// An encrypted one.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Makes the TLS handshake if the configuration says so. `incomplete` counts the handshakes that are incomplete.
    pub async fn accept(
        tls: Option<&TlsConfigs>,
        incomplete: &AtomicUsize,
        stream: TcpStream,
    ) -> io::Result<Socket> {
        let Some(configs) = tls else { return Ok(Socket::Plain(stream)) };
        let acceptor = TlsAcceptor::from(configs.borrow().clone());
        let before = incomplete.fetch_add(1, Ordering::Relaxed);
        let patience = if before < MANY { PATIENCE } else { LITTLE_PATIENCE };
        let accepted = tokio::time::timeout(patience, acceptor.accept(stream)).await;
        incomplete.fetch_sub(1, Ordering::Relaxed);
        let late =
            |_| io::Error::new(io::ErrorKind::TimedOut, "the client does not complete the TLS handshake");
        Ok(Socket::Tls(Box::new(accepted.map_err(late)??)))
    }

    /// Whether the socket is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Socket::Tls(_))
    }
}

/// Calls a method of the inner socket.
macro_rules! inner {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket.get_mut() {
            Socket::Plain($stream) => $call,
            Socket::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        inner!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        inner!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => Pin::new(stream).poll_shutdown(context))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inner!(self, stream => Pin::new(stream).poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Plain(stream) => stream.is_write_vectored(),
            Socket::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
