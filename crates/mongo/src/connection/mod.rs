//! One connection. It has a thread while its client sends commands, and only a task while the client is idle.
//!
//! Commands are synchronous and may block on a lock or on the disk, so an active connection (a conversation) has a
//! thread. The thread reads a message, runs its command and writes the reply, with two system calls in all. When the
//! client has been idle for a short time, the conversation releases the thread and its buffers, and the task waits for
//! the next whole message. A connection also releases its thread while the client does not read a reply or sends a
//! message slowly.

pub(crate) mod client;
pub(crate) mod deferred;
pub(crate) mod exhaust;
mod input;
pub(crate) mod room;
pub(crate) mod tls;

use crate::connection::client::Client;
use crate::connection::deferred::{Link, Parked, Unsent};
use crate::connection::exhaust::Replies;
use crate::connection::input::Input;
use crate::connection::tls::Tls;
use crate::dispatch::{self, Wait};
use crate::server::Server;
use crate::wire::HEADER_LEN;
use diwan_access::Caller;
use diwan_kv::CommitId;
use std::future::ready;
use std::io::{self, Read};
use std::net;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout_at};

/// How long an idle conversation keeps its thread.
const SILENCE: Duration = Duration::from_millis(200);
/// The time limit for receiving a message. Each [`PACE`] bytes received extend it by a second.
const HALF_MESSAGE: Duration = Duration::from_secs(30);
const PACE: u64 = 16 * 1024;
/// The same for a long message while other connections wait to send theirs.
const WANTED_PACE: u64 = 1 << 20;
/// How long a conversation keeps its thread while the client does not read its reply.
const SLOW_READER: Duration = Duration::from_millis(20);
/// How often the connection of a waiting command is checked for a disconnected client.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// The free space for reading: in a conversation, and while the connection is idle.
const CHUNK: usize = 16 * 1024;
const FIRST_CHUNK: usize = 512;
/// The largest buffer that is kept for the next message.
const KEPT: usize = 256 * 1024;
/// With more conversations than this, each releases its thread after every command, so that all make progress.
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
    let mut tls = None;
    if let Some(configs) = &server.options.tls {
        let (socket, session, subject) = tls::accept(configs, &server.handshakes, stream).await?;
        (stream, tls) = (socket, Some(session));
        client.set_certificate_subject(subject);
    }
    loop {
        if !next_message(server, &stream, tls.as_deref(), client, &mut kept.input).await? {
            return Ok(());
        }
        let mut conversation = Conversation::begin(server, client, stream.into_std()?, tls.clone(), kept)?;
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
                        let check = until.min(Instant::now() + CHECK_EVERY);
                        tokio::select! {
                            () = &mut changed => break,
                            () = sleep_until(check.into()) => {}
                            // At shutdown the command runs once more and answers with what it has.
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
                    unsent.send(server, &stream).await?;
                    conversation =
                        Conversation::begin(server, client, stream.into_std()?, tls.clone(), kept)?;
                }
            }
        };
    }
}

/// The longest message of a client that has not signed in, on a server with users.
const STRANGERS_MESSAGE: usize = 64 << 10;
/// How long such a client may send nothing. Drivers watch a server with a message every ten seconds.
const STRANGERS_SILENCE: Duration = Duration::from_secs(120);

/// Whether the client has not signed in although it must.
fn is_stranger(server: &Server, client: &Client) -> bool {
    matches!(*client.caller.lock(), Caller::Anonymous) && !server.access.is_open().unwrap_or(false)
}

/// Refuses a long message of a client that has not signed in, before it is received.
fn check_length(server: &Server, client: &Client, input: &Input) -> io::Result<()> {
    if input.claimed_length().is_some_and(|length| length > STRANGERS_MESSAGE) && is_stranger(server, client)
    {
        let text = "a message before the sign-in is too long";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(())
}

/// Waits until a whole message has been received. False if the client has disconnected or the server shuts down.
async fn next_message(
    server: &Server,
    stream: &TcpStream,
    tls: Option<&Tls>,
    client: &Client,
    input: &mut Input,
) -> io::Result<bool> {
    let mut begun: Option<Instant> = None;
    let silence = is_stranger(server, client).then(|| Instant::now() + STRANGERS_SILENCE);
    while input.whole_message()?.is_none() {
        check_length(server, client, input)?;
        if let Some(length) = input.needs_permit() {
            let permit = tokio::select! {
                permit = server.room.message(length) => permit,
                () = client.closing.notified() => None,
            };
            let Some(permit) = permit else { return Ok(false) };
            input.set_permit(permit);
            begun = None;
        }
        let ready = async {
            match begun {
                _ if tls.is_some_and(Tls::may_have_more) => Ok(()),
                None if input.is_empty() => match silence {
                    None => stream.readable().await,
                    Some(end) => match timeout_at(end.into(), stream.readable()).await {
                        Ok(ready) => ready,
                        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not sign in")),
                    },
                },
                _ => {
                    let pace = if input.has_permit() && server.room.is_wanted() { WANTED_PACE } else { PACE };
                    let allowed = HALF_MESSAGE + Duration::from_secs(input.len() as u64 / pace);
                    let end = *begun.get_or_insert_with(Instant::now) + allowed;
                    let late =
                        |_| io::Error::new(io::ErrorKind::TimedOut, "the client sends a message too slowly");
                    timeout_at(end.into(), stream.readable()).await.map_err(late)?
                }
            }
        };
        tokio::select! {
            ready = ready => ready?,
            () = client.closing.notified() => return Ok(false),
        }
        let room = input.room(FIRST_CHUNK);
        let read = match tls {
            None => stream.try_read(room),
            Some(tls) => tls.read(room, |chunk| stream.try_read(chunk)),
        };
        match read {
            Ok(0) if input.is_empty() => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => input.advance(read),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                input.release();
                if let Some(tls) = tls {
                    tls.release();
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Why a conversation releases its thread.
enum Pause {
    /// The client is idle.
    Silence,
    /// A command waits for a collection to change.
    Change { until: Instant, changed: Pin<Box<dyn Future<Output = ()> + Send>> },
    /// The client does not read its reply.
    Unsent(Unsent),
    /// The connection is closed.
    End,
}

/// The state of a connection that has no thread.
#[derive(Default)]
struct Kept {
    input: Input,
    /// The length of the message whose command runs again, and the deadline of its wait.
    again: Option<(usize, Option<Instant>)>,
    /// The replies to that message.
    replies: Replies,
    /// A reply that waits until the previous one has been sent.
    due: Option<Due>,
    /// Whether the connection closes when the last reply has been sent.
    over: bool,
}

/// A reply with the header of its message and the commit that it waits for.
struct Due {
    output: Vec<u8>,
    header: [u8; HEADER_LEN],
    commit: Option<CommitId>,
}

/// An active connection.
struct Conversation {
    server: Arc<Server>,
    client: Arc<Client>,
    stream: Arc<net::TcpStream>,
    tls: Option<Arc<Tls>>,
    input: Input,
    /// The buffer for decompressed messages.
    scratch: Vec<u8>,
    /// The buffer for replies.
    output: Vec<u8>,
    /// The length of the message whose command runs again, and the deadline of its wait.
    again: Option<(usize, Option<Instant>)>,
    /// The replies to that message.
    replies: Replies,
    /// The reply that waits for a sync.
    parked: Option<Parked>,
    due: Option<Due>,
    over: bool,
}

impl Conversation {
    fn begin(
        server: &Arc<Server>,
        client: &Arc<Client>,
        stream: net::TcpStream,
        tls: Option<Arc<Tls>>,
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
            tls,
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

    /// Ends the conversation. Returns the socket in non-blocking mode, and the state to keep.
    fn end(mut self) -> io::Result<(net::TcpStream, Kept)> {
        self.client.talking.lock().take();
        let stream = Arc::into_inner(self.stream).ok_or(io::ErrorKind::ConnectionAborted)?;
        stream.set_nonblocking(true)?;
        self.input.release();
        if let Some(tls) = &self.tls {
            tls.release();
        }
        let Conversation { input, again, replies, due, over, .. } = self;
        Ok((stream, Kept { input, again, replies, due, over }))
    }

    /// Answers messages until the conversation has to release its thread.
    fn run(mut self) -> (Conversation, io::Result<Pause>) {
        self.server.conversations.begin();
        let pause = match self.converse() {
            // The parked reply must be sent before the socket is released or closed.
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

    /// Sends the reply to the message with this header when the commit is durable. This thread syncs the journal, or
    /// parks the reply if another thread is already syncing. Returns the part that the client does not read; the task
    /// sends it without a thread, and then continues the conversation.
    fn reply(&mut self, header: [u8; HEADER_LEN], commit: Option<CommitId>) -> io::Result<Option<Unsent>> {
        if self.output.is_empty() {
            self.shrink();
            return Ok(None);
        }
        if let Some(mut unsent) = self.settle() {
            if commit.is_none() {
                // This reply waits for no commit, so it is sent together with the previous one.
                self.seal()?;
                self.server.metrics.bytes_out.add(self.output.len() as u64);
                unsent.bytes.append(&mut self.output);
                self.shrink();
                self.replies.release_memory();
                return Ok(Some(unsent));
            }
            self.due = Some(Due { output: std::mem::take(&mut self.output), header, commit });
            return Ok(Some(unsent));
        }
        match commit.map(|commit| self.server.engine.sync_here(commit).ok_or(commit)) {
            None | Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => dispatch::fail(&self.server, &header, error.into(), &mut self.output),
            Some(Err(commit)) => {
                let output = std::mem::take(&mut self.output);
                self.replies.release_memory();
                let link = Link { stream: self.stream.clone(), tls: self.tls.clone() };
                self.parked = Some(Parked::new(&self.server, link, commit, header, output));
                self.shrink();
                return Ok(None);
            }
        }
        self.server.metrics.bytes_out.add(self.output.len() as u64);
        self.seal()?;
        let sent = send_at_pace(&self.stream, &self.output)?;
        let unsent =
            (sent < self.output.len()).then(|| Unsent { bytes: std::mem::take(&mut self.output), sent });
        self.shrink();
        self.replies.release_memory();
        Ok(unsent)
    }

    /// Encrypts the reply if the connection is encrypted.
    fn seal(&mut self) -> io::Result<()> {
        match &self.tls {
            Some(tls) => tls.seal(&mut self.output),
            None => Ok(()),
        }
    }

    /// Waits until the parked reply, if there is one, has been sent. Returns the part that the client does not read.
    fn settle(&mut self) -> Option<Unsent> {
        self.parked.take().and_then(Parked::wait)
    }

    /// Reads until a whole message has been received. Returns its length, or why the conversation pauses.
    fn read_message(&mut self) -> io::Result<Result<usize, Pause>> {
        let mut begun: Option<Instant> = None;
        loop {
            if let Some(length) = self.input.whole_message()? {
                return Ok(Ok(length));
            }
            check_length(&self.server, &self.client, &self.input)?;
            if let Some(length) = self.input.needs_permit() {
                match self.server.room.message_now(length) {
                    Some(permit) => self.input.set_permit(permit),
                    // The connection waits for a permit without a thread.
                    None => return Ok(Err(Pause::Silence)),
                }
            }
            // A message that arrives slowly is received without a thread.
            if !self.input.is_empty() && begun.get_or_insert_with(Instant::now).elapsed() > SILENCE {
                return Ok(Err(Pause::Silence));
            }
            let room = self.input.room(CHUNK);
            let read = match &self.tls {
                None => (&*self.stream).read(room),
                Some(tls) => tls.read(room, |chunk| (&*self.stream).read(chunk)),
            };
            match read {
                Ok(0) if self.input.is_empty() => return Ok(Err(Pause::End)),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.input.advance(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Ok(Err(Pause::Silence)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Clears the buffers, and shrinks those larger than [`KEPT`].
    fn shrink(&mut self) {
        for buffer in [&mut self.scratch, &mut self.output] {
            buffer.clear();
            if buffer.capacity() > KEPT {
                buffer.shrink_to(CHUNK);
            }
        }
    }
}

/// Sends until the client stops reading. Returns how many bytes were sent.
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

/// Whether a read or write has reached its timeout.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
