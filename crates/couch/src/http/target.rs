//! A socket wrapper that escapes characters which people type in URLs.
//!
//! `curl 'http://localhost:5984/db/_all_docs?startkey="a"'` sends the quotes unescaped. CouchDB accepts them, but
//! hyper refuses the request. This wrapper escapes them in the request line only. It knows where a request line
//! begins: at the start of the connection, and after a request whose body was received completely. After a body that
//! was streamed, the position is unknown and nothing is changed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Whether the next bytes begin a request. Shared between a connection and its requests.
pub type Next = Arc<AtomicBool>;

/// The wrapped socket.
pub struct Lenient<S> {
    socket: S,
    next: Next,
    /// Whether a request line has begun but not ended.
    in_line: bool,
    /// Escaped bytes that did not fit into the caller's buffer.
    left: Vec<u8>,
}

impl<S> Lenient<S> {
    /// Wraps a new connection.
    pub fn new(socket: S) -> Lenient<S> {
        Lenient { socket, next: Arc::new(AtomicBool::new(true)), in_line: false, left: Vec::new() }
    }

    /// Returns the flag, to be set when a request has been received completely.
    pub fn next(&self) -> Next {
        self.next.clone()
    }

    /// Returns the escaped bytes; `None` if nothing needs escaping.
    fn escape(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if bytes.is_empty() {
            return None;
        }
        let begins = self.next.swap(false, Ordering::Relaxed) && is_request_line(bytes);
        if !begins && !self.in_line {
            return None;
        }
        let end = memchr::memchr(b'\n', bytes);
        self.in_line = end.is_none();
        let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        if !line.iter().any(|&byte| is_escaped(byte)) {
            return None;
        }
        let mut out = Vec::with_capacity(bytes.len() + 64);
        for &byte in line {
            match is_escaped(byte) {
                true => out.extend_from_slice(&[b'%', hex(byte >> 4), hex(byte & 15)]),
                false => out.push(byte),
            }
        }
        out.extend_from_slice(rest);
        Some(out)
    }
}

/// Whether the bytes begin with a method and a path. An HTTP/2 preface does not.
fn is_request_line(bytes: &[u8]) -> bool {
    let method = bytes.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    method > 0 && bytes[method..].starts_with(b" /")
}

/// Whether hyper refuses the byte in a path or query.
fn is_escaped(byte: u8) -> bool {
    matches!(byte, b'"' | b'<' | b'>' | b'`')
}

fn hex(digit: u8) -> u8 {
    b"0123456789ABCDEF"[usize::from(digit)]
}

impl<S: AsyncRead + Unpin> AsyncRead for Lenient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.left.is_empty() {
            let before = buffer.filled().len();
            match Pin::new(&mut this.socket).poll_read(context, buffer) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
            let Some(escaped) = this.escape(&buffer.filled()[before..]) else { return Poll::Ready(Ok(())) };
            buffer.set_filled(before);
            this.left = escaped;
        }
        let count = this.left.len().min(buffer.remaining());
        buffer.put_slice(&this.left[..count]);
        this.left.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lenient<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
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
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_changes_only_request_lines() {
        let mut socket = Lenient::new(());
        let next = socket.next();
        let mut escape = |text: &str| {
            let out = socket.escape(text.as_bytes()).unwrap_or_else(|| text.as_bytes().to_vec());
            String::from_utf8(out).unwrap()
        };
        let request = "GET /db?key=\"a\" HTTP/1.1\r\nIf-None-Match: \"x\"\r\n\r\n";
        let escaped = "GET /db?key=%22a%22 HTTP/1.1\r\nIf-None-Match: \"x\"\r\n\r\n";
        assert_eq!(escape(request), escaped);
        // Not before the request is complete, and only text that looks like a request line.
        assert_eq!(escape(request), request);
        next.store(true, Ordering::Relaxed);
        assert_eq!(escape("{\"a\":\"GET /\"}"), "{\"a\":\"GET /\"}");
        // A request line that arrives in pieces.
        next.store(true, Ordering::Relaxed);
        assert_eq!(escape("POST /db?a=<\""), "POST /db?a=%3C%22");
        assert_eq!(escape("\"> HTTP/1.1\r\n\""), "%22%3E HTTP/1.1\r\n\"");
        assert_eq!(escape("\""), "\"");
        next.store(true, Ordering::Relaxed);
        assert_eq!(escape("PRI * HTTP/2.0\r\n\r\n\"\n"), "PRI * HTTP/2.0\r\n\r\n\"\n");
    }
}
