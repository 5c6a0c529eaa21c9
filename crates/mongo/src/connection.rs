//! One connection: silent ones wait without a thread, those that talk have one.
//!
//! Commands are synchronous and may block (on a lock, on the disk), so each conversation runs on a thread of its own:
//! read a message, run its command in place, write the reply, two system calls in all. After a short silence the
//! thread is given back, the buffers with it, and the socket waits among thousands of others until a whole message
//! has come again.

use crate::client::Client;
use crate::deferred::Parked;
use crate::dispatch::{self, Wait};
use crate::exhaust::Replies;
use crate::input::Input;
use crate::server::Server;
use crate::wire::HEADER_LEN;
use diwan_kv::CommitId;
use std::future::ready;
use std::io::{self, Read, Write};
use std::net;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{sleep_until, timeout_at};

/// How long a conversation keeps its thread without a message.
const SILENCE: Duration = Duration::from_millis(200);
/// How long a message may take to come.
const HALF_MESSAGE: Duration = Duration::from_secs(30);
/// How long a client may refuse to take a reply.
const REPLY: Duration = Duration::from_secs(20);
/// How often a connection whose command waits is asked whether its client is still there.
const LOOK: Duration = Duration::from_secs(2);
/// What is made ready for reading: while a conversation goes on, and before it.
const CHUNK: usize = 16 * 1024;
const FIRST_CHUNK: usize = 512;
/// The largest reply whose buffer is kept for the next.
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
    let mut input = Input::default();
    loop {
        if !next_message(&stream, client, &mut input).await? {
            return Ok(());
        }
        let mut conversation = Conversation::begin(server, client, stream.into_std()?, input)?;
        (stream, input) = loop {
            let (back, pause) = tokio::task::spawn_blocking(move || conversation.run()).await?;
            match pause? {
                Pause::End => return Ok(()),
                Pause::Silence => {
                    let (stream, input) = back.end()?;
                    break (TcpStream::from_std(stream)?, input);
                }
                Pause::Change { until, mut changed } => {
                    while Instant::now() < until {
                        let look = until.min(Instant::now() + LOOK);
                        tokio::select! {
                            () = &mut changed => break,
                            () = sleep_until(look.into()) => {}
                            // An empty batch is a good last word.
                            () = client.closing.notified() => break,
                        }
                        if client.is_gone() {
                            return Ok(());
                        }
                    }
                    conversation = back;
                }
            }
        };
    }
}

/// Waits until a whole message is there. False if the client is gone or must go.
async fn next_message(stream: &TcpStream, client: &Client, input: &mut Input) -> io::Result<bool> {
    let mut begun: Option<Instant> = None;
    while input.whole_message()?.is_none() {
        let ready = async {
            match begun {
                None if input.is_empty() => stream.readable().await,
                _ => {
                    let end = *begun.get_or_insert_with(Instant::now) + HALF_MESSAGE;
                    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "half a message, then silence");
                    timeout_at(end.into(), stream.readable()).await.map_err(late)?
                }
            }
        };
        tokio::select! {
            ready = ready => ready?,
            () = client.closing.notified() => return Ok(false),
        }
        match stream.try_read(input.room(FIRST_CHUNK)) {
            Ok(0) if input.is_empty() => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => input.advance(read),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => input.release(),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
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
    input: Input,
    /// Where compressed messages are unpacked.
    scratch: Vec<u8>,
    /// The reply.
    output: Vec<u8>,
    /// The length of the message whose command is run again, and until when it has waited.
    again: Option<(usize, Option<Instant>)>,
    /// The replies to that message.
    replies: Replies,
    /// The reply that waits for the disk.
    parked: Option<Parked>,
    runtime: Handle,
}

impl Conversation {
    fn begin(
        server: &Arc<Server>,
        client: &Arc<Client>,
        stream: net::TcpStream,
        input: Input,
    ) -> io::Result<Conversation> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(REPLY))?;
        let stream = Arc::new(stream);
        *client.talking.lock() = Some(stream.clone());
        Ok(Conversation {
            server: server.clone(),
            client: client.clone(),
            stream,
            input,
            scratch: Vec::new(),
            output: Vec::new(),
            again: None,
            replies: Replies::default(),
            parked: None,
            runtime: Handle::current(),
        })
    }

    /// The socket, ready to wait for the next conversation, and what was read of its first message.
    fn end(mut self) -> io::Result<(net::TcpStream, Input)> {
        self.client.talking.lock().take();
        let stream = Arc::into_inner(self.stream).ok_or(io::ErrorKind::ConnectionAborted)?;
        stream.set_nonblocking(true)?;
        self.input.release();
        Ok((stream, self.input))
    }

    /// Answers messages until there is a reason to pause.
    fn run(mut self) -> (Conversation, io::Result<Pause>) {
        self.server.conversations.begin();
        let pause = self.converse();
        self.settle();
        self.server.conversations.end();
        (self, pause)
    }

    fn converse(&mut self) -> io::Result<Pause> {
        loop {
            let (length, deadline) = match self.again.take() {
                Some(again) => again,
                None => match self.read_message()? {
                    Ok(length) => (length, None),
                    Err(pause) => return Ok(pause),
                },
            };
            let message = self.input.message(length);
            let wait = dispatch::handle(
                &self.server,
                &self.client,
                message,
                deadline,
                &mut self.replies,
                &mut self.scratch,
                &mut self.output,
            );
            let header = *message.first_chunk().ok_or(io::ErrorKind::InvalidData)?;
            let commit = match wait {
                Wait::Nothing => None,
                Wait::Durable(commit) => Some(commit),
                Wait::Change { until, changed } => {
                    self.again = Some((length, Some(until)));
                    return Ok(Pause::Change { until, changed });
                }
                Wait::Close => return Ok(Pause::End),
            };
            self.reply(header, commit)?;
            if self.replies.follow() {
                self.again = Some((length, None));
            } else {
                self.replies.end();
                self.server.metrics.bytes_in.add(length as u64);
                self.input.consume(length);
            }
            self.shrink();
            if self.server.is_draining() {
                return Ok(Pause::End);
            }
            if self.server.conversations.are_too_many() {
                return Ok(match self.again {
                    None => Pause::Silence,
                    Some(_) => Pause::Change { until: Instant::now(), changed: Box::pin(ready(())) },
                });
            }
        }
    }

    /// Sends the reply to the message with this header when the commit is durable: makes it so, or, where others sync
    /// already, parks the reply until they have.
    fn reply(&mut self, header: [u8; HEADER_LEN], commit: Option<CommitId>) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        self.settle();
        match commit.map(|commit| self.server.engine.sync_here(commit).ok_or(commit)) {
            None | Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => dispatch::fail(&self.server, &header, error.into(), &mut self.output),
            Some(Err(commit)) => {
                let output = std::mem::take(&mut self.output);
                let (server, stream, runtime) = (&self.server, &self.stream, &self.runtime);
                self.parked = Some(Parked::new(server, stream, runtime, commit, header, output));
                return Ok(());
            }
        }
        self.server.metrics.bytes_out.add(self.output.len() as u64);
        (&*self.stream).write_all(&self.output)
    }

    /// Waits until the reply that is parked, if one is, is out of the way.
    fn settle(&mut self) {
        if let Some(parked) = self.parked.take() {
            parked.wait();
        }
    }

    /// Reads until a whole message is there; its length, or why there is none.
    fn read_message(&mut self) -> io::Result<Result<usize, Pause>> {
        loop {
            if let Some(length) = self.input.whole_message()? {
                return Ok(Ok(length));
            }
            match (&*self.stream).read(self.input.room(CHUNK)) {
                Ok(0) if self.input.is_empty() => return Ok(Err(Pause::End)),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.input.advance(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Ok(Err(Pause::Silence)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Empties the buffers, and gives back those that have grown beyond what is worth keeping.
    fn shrink(&mut self) {
        for buffer in [&mut self.scratch, &mut self.output] {
            buffer.clear();
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
