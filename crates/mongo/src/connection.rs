//! One connection: read a message, run its command in place, write the reply.
//!
//! The loop holds at most what the client has really sent: memory for a message grows with the bytes that arrive, and
//! goes back when the connection falls silent.

use crate::client::Client;
use crate::dispatch::{self, Wait};
use crate::server::Server;
use crate::wire::{HEADER_LEN, Header};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long the rest of a message may take to come.
const HALF_MESSAGE: Duration = Duration::from_secs(30);
/// After how long without a message the buffers are given back.
const SILENCE: Duration = Duration::from_secs(10);
/// What is made ready for reading at a time.
const CHUNK: usize = 16 * 1024;
/// The largest message whose buffer is kept for the next.
const KEPT: usize = 256 * 1024;

/// Serves one connection until either side closes it.
pub(crate) async fn serve(server: Arc<Server>, stream: TcpStream, client: Arc<Client>) {
    tracing::debug!(connection = client.id, peer = %client.peer, "connection accepted");
    let mut connection =
        Connection { server, client, stream, input: Vec::new(), scratch: Vec::new(), output: Vec::new() };
    let end = connection.run().await;
    let Connection { server, client, .. } = connection;
    server.clients.remove(client.id);
    server.metrics.connections_closed.add(1);
    match end {
        Ok(()) => tracing::debug!(connection = client.id, "connection ended"),
        Err(error) => tracing::debug!(connection = client.id, %error, "connection broken"),
    }
}

struct Connection {
    server: Arc<Server>,
    client: Arc<Client>,
    stream: TcpStream,
    /// What was read and not yet handled.
    input: Vec<u8>,
    /// Where compressed messages are unpacked.
    scratch: Vec<u8>,
    /// The reply.
    output: Vec<u8>,
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        while let Some(length) = self.read_message().await? {
            self.server.metrics.bytes_in.add(length as u64);
            let mut deadline = None;
            loop {
                let message = &self.input[..length];
                let wait = dispatch::handle(
                    &self.server,
                    &self.client,
                    message,
                    deadline,
                    &mut self.scratch,
                    &mut self.output,
                );
                match wait {
                    Wait::Nothing => {}
                    Wait::Durable(commit) => {
                        if let Err(error) = self.server.durable(commit).await {
                            dispatch::fail(&self.server, message, error.into(), &mut self.output);
                        }
                    }
                    Wait::Change { until, changed } => {
                        deadline = Some(until);
                        tokio::select! {
                            () = changed => {}
                            () = tokio::time::sleep_until(until.into()) => {}
                            // An empty batch is a good last word.
                            () = self.client.closing.notified() => self.client.closing.notify_one(),
                        }
                        continue;
                    }
                    Wait::Close => return Ok(()),
                }
                break;
            }
            if !self.output.is_empty() {
                self.stream.write_all(&self.output).await?;
                self.server.metrics.bytes_out.add(self.output.len() as u64);
            }
            self.consume(length);
            if self.server.is_draining() {
                break;
            }
        }
        Ok(())
    }

    /// Reads until a whole message is there and returns its length; `None` when the client is gone or must go.
    async fn read_message(&mut self) -> io::Result<Option<usize>> {
        loop {
            let mut missing = HEADER_LEN;
            match Header::read(&self.input) {
                Some(Ok(header)) if self.input.len() >= header.length => return Ok(Some(header.length)),
                Some(Ok(header)) => missing = header.length - self.input.len(),
                Some(Err(error)) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
                None => {}
            }
            // At most as much as has come already: a claimed length alone takes no memory.
            self.input
                .reserve(missing.min(self.input.len()).max(CHUNK.min(self.input.capacity().max(CHUNK))));
            let limit = if self.input.is_empty() { SILENCE } else { HALF_MESSAGE };
            let read = tokio::select! {
                biased;
                read = timeout(limit, self.stream.read_buf(&mut self.input)) => read,
                () = self.client.closing.notified() => return Ok(None),
            };
            match read {
                Ok(Ok(0)) if self.input.is_empty() => return Ok(None),
                Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
                Err(_) if self.input.is_empty() => {
                    self.input = Vec::new();
                    self.scratch = Vec::new();
                    self.output = Vec::new();
                    tokio::select! {
                        ready = self.stream.readable() => ready?,
                        () = self.client.closing.notified() => return Ok(None),
                    }
                }
                Err(_) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "half a message, then silence"));
                }
            }
        }
    }

    /// Drops a handled message, and buffers that have grown beyond what is worth keeping.
    fn consume(&mut self, length: usize) {
        if self.input.len() == length {
            self.input.clear();
        } else {
            self.input.drain(..length);
        }
        for buffer in [&mut self.input, &mut self.scratch, &mut self.output] {
            if buffer.capacity() > KEPT {
                buffer.shrink_to(CHUNK);
            }
        }
        self.output.clear();
        self.scratch.clear();
    }
}
