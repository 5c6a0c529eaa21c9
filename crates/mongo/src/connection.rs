//! One connection: silent ones wait without a thread, those that talk have one.
//!
//! Commands are synchronous and may block (on a lock, on the disk), so each conversation runs on a thread of its own:
//! read a message, run its command in place, write the reply, two system calls in all. After a short silence the
//! thread is given back, the buffers with it, and the socket waits for its next message among thousands of others.
//!
//! A connection holds at most what the client has really sent: memory for a message grows with the bytes that arrive.

use crate::client::Client;
use crate::dispatch::{self, Wait};
use crate::server::Server;
use crate::wire::{HEADER_LEN, Header};
use std::io::{self, Read, Write};
use std::net;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// How long a conversation keeps its thread without a message.
const SILENCE: Duration = Duration::from_millis(200);
/// How long the rest of a message may take to come.
const HALF_MESSAGE: Duration = Duration::from_secs(30);
/// How long a client may take to take a reply.
const REPLY: Duration = Duration::from_secs(60);
/// What is made ready for reading at a time.
const CHUNK: usize = 16 * 1024;
/// The largest message whose buffer is kept for the next.
const KEPT: usize = 256 * 1024;
/// With more conversations than this at once, each gives its thread back after every command, so that all get on.
pub(crate) const MAX_THREADS: usize = 1024;

/// Serves one connection until either side closes it.
pub(crate) async fn serve(server: Arc<Server>, stream: TcpStream, client: Arc<Client>) {
    tracing::debug!(connection = client.id, peer = %client.peer, "connection accepted");
    let end = run(&server, stream, &client).await;
    server.clients.remove(client.id);
    server.metrics.connections_closed.add(1);
    match end {
        Ok(()) => tracing::debug!(connection = client.id, "connection ended"),
        Err(error) => tracing::debug!(connection = client.id, %error, "connection broken"),
    }
}

async fn run(server: &Arc<Server>, mut stream: TcpStream, client: &Arc<Client>) -> io::Result<()> {
    loop {
        tokio::select! {
            ready = stream.readable() => ready?,
            () = client.closing.notified() => return Ok(()),
        }
        let mut conversation = Conversation::begin(server, client, stream.into_std()?)?;
        stream = loop {
            let (back, pause) = tokio::task::spawn_blocking(move || conversation.run()).await?;
            match pause? {
                Pause::End => return Ok(()),
                Pause::Silence => break TcpStream::from_std(back.end()?)?,
                Pause::Change { until, changed } => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(until.into()) => {}
                        // An empty batch is a good last word.
                        () = client.closing.notified() => {}
                    }
                    conversation = back;
                }
            }
        };
    }
}

/// Why a conversation gives its thread back.
enum Pause {
    /// The client says nothing.
    Silence,
    /// A command waits for a collection to change.
    Change { until: Instant, changed: Pin<Box<dyn Future<Output = ()> + Send>> },
    /// The connection is closed.
    End,
}

/// A connection while its client talks.
struct Conversation {
    server: Arc<Server>,
    client: Arc<Client>,
    stream: Arc<net::TcpStream>,
    /// What was read and not yet handled, and room for more.
    input: Vec<u8>,
    /// How many bytes of it were read.
    filled: usize,
    /// Where compressed messages are unpacked.
    scratch: Vec<u8>,
    /// The reply.
    output: Vec<u8>,
    /// The length of the message whose command waits, and until when it does.
    waiting: Option<(usize, Instant)>,
}

impl Conversation {
    fn begin(server: &Arc<Server>, client: &Arc<Client>, stream: net::TcpStream) -> io::Result<Conversation> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(REPLY))?;
        let stream = Arc::new(stream);
        *client.talking.lock() = Some(stream.clone());
        Ok(Conversation {
            server: server.clone(),
            client: client.clone(),
            stream,
            input: Vec::new(),
            filled: 0,
            scratch: Vec::new(),
            output: Vec::new(),
            waiting: None,
        })
    }

    /// The socket, ready to wait for the next conversation.
    fn end(self) -> io::Result<net::TcpStream> {
        self.client.talking.lock().take();
        let stream = Arc::into_inner(self.stream).ok_or(io::ErrorKind::ConnectionAborted)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// Answers messages until there is a reason to pause.
    fn run(mut self) -> (Conversation, io::Result<Pause>) {
        self.server.conversations.begin();
        let pause = self.converse();
        self.server.conversations.end();
        (self, pause)
    }

    fn converse(&mut self) -> io::Result<Pause> {
        loop {
            let (length, deadline) = match self.waiting.take() {
                Some((length, until)) => (length, Some(until)),
                None => match self.read_message()? {
                    Ok(length) => (length, None),
                    Err(pause) => return Ok(pause),
                },
            };
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
                    if let Err(error) = self.server.engine.wait_durable(commit) {
                        dispatch::fail(&self.server, message, error.into(), &mut self.output);
                    }
                }
                Wait::Change { until, changed } => {
                    self.waiting = Some((length, until));
                    return Ok(Pause::Change { until, changed });
                }
                Wait::Close => return Ok(Pause::End),
            }
            if !self.output.is_empty() {
                (&*self.stream).write_all(&self.output)?;
            }
            self.server.metrics.bytes_in.add(length as u64);
            self.server.metrics.bytes_out.add(self.output.len() as u64);
            self.consume(length);
            if self.server.is_draining() {
                return Ok(Pause::End);
            }
            if self.filled == 0 && self.server.conversations.are_too_many() {
                return Ok(Pause::Silence);
            }
        }
    }

    /// Reads until a whole message is there; its length, or why there is none.
    fn read_message(&mut self) -> io::Result<Result<usize, Pause>> {
        let mut last = None;
        loop {
            let missing = match Header::read(&self.input[..self.filled]) {
                Some(Ok(header)) if self.filled >= header.length => return Ok(Ok(header.length)),
                Some(Ok(header)) => header.length - self.filled,
                Some(Err(error)) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
                None => HEADER_LEN - self.filled,
            };
            let read = self.read_some(missing);
            match read {
                Ok(0) if self.filled == 0 => return Ok(Err(Pause::End)),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => last = Some(Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if !is_timeout(&error) => return Err(error),
                Err(_) if self.filled == 0 => return Ok(Err(Pause::Silence)),
                Err(error) => {
                    if last.get_or_insert_with(Instant::now).elapsed() >= HALF_MESSAGE {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Reads once: at most as much more as has come already, so that a claimed length alone takes no memory.
    fn read_some(&mut self, missing: usize) -> io::Result<usize> {
        let end = self.filled + missing.min(self.filled).max(CHUNK);
        if self.input.len() < end {
            self.input.resize(end, 0);
        }
        let read = (&*self.stream).read(&mut self.input[self.filled..end])?;
        self.filled += read;
        Ok(read)
    }

    /// Drops a handled message, and buffers that have grown beyond what is worth keeping.
    fn consume(&mut self, length: usize) {
        self.input.copy_within(length..self.filled, 0);
        self.filled -= length;
        self.output.clear();
        self.scratch.clear();
        if self.input.len() > KEPT {
            self.input.truncate(self.filled.max(CHUNK));
        }
        for buffer in [&mut self.input, &mut self.scratch, &mut self.output] {
            if buffer.capacity() > KEPT {
                buffer.shrink_to(CHUNK);
            }
        }
    }
}

/// Whether a read has waited for as long as it may.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
