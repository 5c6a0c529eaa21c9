//! One connection: silent ones wait without a thread, those that talk have one.
//!
//! Commands are synchronous and may block (on a lock, on the disk), so each conversation runs on a thread of its own:
//! read a message, run its command in place, write the reply, two system calls in all. After a short silence the
//! thread is given back, the buffers with it, and the socket waits among thousands of others until a whole message
//! has come again. A client that does not take its reply, or sends a message slowly, has no thread meanwhile either.

use crate::client::Client;
use crate::deferred::{Parked, Unsent};
use crate::dispatch::{self, Wait};
use crate::exhaust::Replies;
use crate::input::Input;
use crate::server::Server;
use crate::wire::HEADER_LEN;
use diwan_kv::CommitId;
use std::future::ready;
use std::io::{self, Read};
use std::net;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout_at};

/// How long a conversation keeps its thread without a message.
const SILENCE: Duration = Duration::from_millis(200);
/// How long a message may take to come, beside a second for each [`PACE`] bytes that have come of it.
const HALF_MESSAGE: Duration = Duration::from_secs(30);
const PACE: u64 = 16 * 1024;
/// How long a conversation keeps its thread while the client does not take a reply.
const SLOW_READER: Duration = Duration::from_millis(20);
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
    let mut kept = Kept::default();
    loop {
        if !next_message(&stream, client, &mut kept.input).await? {
            return Ok(());
        }
        let mut conversation = Conversation::begin(server, client, stream.into_std()?, kept)?;
        (stream, kept) = loop {
            let (back, pause) = tokio::task::spawn_blocking(move || conversation.run()).await?;
            match pause? {
                Pause::End => return Ok(()),
                Pause::Silence => {
                    let (stream, kept) = back.end()?;
                    break (TcpStream::from_std(stream)?, kept);
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
                Pause::Unsent(unsent) => {
                    let (stream, kept) = back.end()?;
                    let stream = TcpStream::from_std(stream)?;
                    unsent.send(&stream).await?;
                    conversation = Conversation::begin(server, client, stream.into_std()?, kept)?;
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
                    let allowed = HALF_MESSAGE + Duration::from_secs(input.len() as u64 / PACE);
                    let end = *begun.get_or_insert_with(Instant::now) + allowed;
                    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "a message came too slowly");
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
    /// The client does not take a reply.
    Unsent(Unsent),
    /// The connection is closed.
    End,
}

/// What a connection keeps while it has no thread.
#[derive(Default)]
struct Kept {
    input: Input,
    /// The length of the message whose command is run again, and until when it has waited.
    again: Option<(usize, Option<Instant>)>,
    /// The replies to that message.
    replies: Replies,
    /// A reply that waits until the one before it has been sent.
    due: Option<Due>,
    /// The connection is closed when the last reply has been sent.
    over: bool,
}

/// A reply, the header of the message that it answers, and the commit that it waits for.
struct Due {
    output: Vec<u8>,
    header: [u8; HEADER_LEN],
    commit: Option<CommitId>,
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
    due: Option<Due>,
    over: bool,
}

impl Conversation {
    fn begin(
        server: &Arc<Server>,
        client: &Arc<Client>,
        stream: net::TcpStream,
        kept: Kept,
    ) -> io::Result<Conversation> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SLOW_READER))?;
        let stream = Arc::new(stream);
        *client.talking.lock() = Some(stream.clone());
        Ok(Conversation {
            server: server.clone(),
            client: client.clone(),
            stream,
            input: kept.input,
            scratch: Vec::new(),
            output: Vec::new(),
            again: kept.again,
            replies: kept.replies,
            parked: None,
            due: kept.due,
            over: kept.over,
        })
    }

    /// The socket, ready to wait without a thread, and what is kept meanwhile.
    fn end(mut self) -> io::Result<(net::TcpStream, Kept)> {
        self.client.talking.lock().take();
        let stream = Arc::into_inner(self.stream).ok_or(io::ErrorKind::ConnectionAborted)?;
        stream.set_nonblocking(true)?;
        self.input.release();
        let Conversation { input, again, replies, due, over, .. } = self;
        Ok((stream, Kept { input, again, replies, due, over }))
    }

    /// Answers messages until there is a reason to pause.
    fn run(mut self) -> (Conversation, io::Result<Pause>) {
        self.server.conversations.begin();
        let pause = match self.converse() {
            // The socket is given back, or closed: the reply that is parked goes first.
            Ok(pause @ (Pause::Silence | Pause::End)) => {
                self.over = matches!(pause, Pause::End);
                Ok(self.settle().map_or(pause, Pause::Unsent))
            }
            pause => pause,
        };
        self.server.conversations.end();
        (self, pause)
    }

    fn converse(&mut self) -> io::Result<Pause> {
        if self.over {
            return Ok(Pause::End);
        }
        if let Some(due) = self.due.take() {
            self.output = due.output;
            if let Some(unsent) = self.reply(due.header, due.commit)? {
                return Ok(Pause::Unsent(unsent));
            }
        }
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
            if self.replies.follow() {
                self.again = Some((length, None));
            } else {
                self.replies.end();
                self.server.metrics.bytes_in.add(length as u64);
                self.input.consume(length);
            }
            if let Some(unsent) = self.reply(header, commit)? {
                return Ok(Pause::Unsent(unsent));
            }
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
    /// already, parks the reply until they have. What the client does not take is given back, to be sent without a
    /// thread; the conversation goes on when it has been.
    fn reply(&mut self, header: [u8; HEADER_LEN], commit: Option<CommitId>) -> io::Result<Option<Unsent>> {
        if self.output.is_empty() {
            self.shrink();
            return Ok(None);
        }
        if let Some(unsent) = self.settle() {
            self.due = Some(Due { output: std::mem::take(&mut self.output), header, commit });
            return Ok(Some(unsent));
        }
        match commit.map(|commit| self.server.engine.sync_here(commit).ok_or(commit)) {
            None | Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => dispatch::fail(&self.server, &header, error.into(), &mut self.output),
            Some(Err(commit)) => {
                let output = std::mem::take(&mut self.output);
                self.parked = Some(Parked::new(&self.server, &self.stream, commit, header, output));
                self.shrink();
                return Ok(None);
            }
        }
        self.server.metrics.bytes_out.add(self.output.len() as u64);
        let sent = send_at_pace(&self.stream, &self.output)?;
        let unsent =
            (sent < self.output.len()).then(|| Unsent { bytes: std::mem::take(&mut self.output), sent });
        self.shrink();
        Ok(unsent)
    }

    /// Waits until the reply that is parked, if one is, is out of the way; or says what of it the client does not take.
    fn settle(&mut self) -> Option<Unsent> {
        self.parked.take().and_then(Parked::wait)
    }

    /// Reads until a whole message is there; its length, or why there is none.
    fn read_message(&mut self) -> io::Result<Result<usize, Pause>> {
        let mut begun: Option<Instant> = None;
        loop {
            if let Some(length) = self.input.whole_message()? {
                return Ok(Ok(length));
            }
            // What comes in small pieces is waited for without a thread.
            if !self.input.is_empty() && begun.get_or_insert_with(Instant::now).elapsed() > SILENCE {
                return Ok(Err(Pause::Silence));
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

/// Sends as long as the client takes it; how much that was.
fn send_at_pace(mut stream: &net::TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match io::Write::write(&mut stream, &bytes[sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Whether a read or write has waited for as long as it may.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
