//! Replies that wait without a thread: for the sync of their commit, or for a client that does not read.
//!
//! A conversation parks a reply whose commit another thread is syncing, and reads the next message. The syncing thread
//! sends the reply. Each conversation has at most one parked reply: before it sends or parks another one, or releases
//! the socket, it waits for the parked one. So replies keep their order.

use crate::connection::tls::Tls;
use crate::dispatch;
use crate::server::Server;
use crate::wire::HEADER_LEN;
use diwan_kv::CommitId;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::io::{self, Read, Seek, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::time::timeout;

/// How long a client may read nothing before its connection is closed.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much of a reply that waits in a file is read at a time.
const PART: usize = 16 << 10;

/// A reply that the client has not read completely.
pub(crate) struct Unsent {
    /// The reply.
    pub bytes: Vec<u8>,
    /// How many bytes of it were sent.
    pub sent: usize,
}

impl Unsent {
    /// Sends the rest as the client reads it. Fails if the client reads nothing for [`PATIENCE`]. If many bytes already wait
    /// for clients, this reply waits in a file.
    pub(crate) async fn send(self, server: &Server, socket: &tokio::net::TcpStream) -> io::Result<()> {
        let Unsent { bytes, sent } = self;
        let mut reservation = server.room.unsent();
        if reservation.cover(bytes.capacity()) {
            return send_bytes(socket, &bytes[sent..]).await;
        }
        let directory = server.options.temporary.clone().unwrap_or_else(std::env::temp_dir);
        let write = move || {
            let mut file = tempfile::tempfile_in(directory)?;
            file.write_all(&bytes[sent..])?;
            file.rewind()?;
            Ok::<_, io::Error>(file)
        };
        let mut file = tokio::task::spawn_blocking(write).await??;
        loop {
            // Waiting before reading keeps the part out of memory while the client does not read.
            writable(socket).await?;
            let (back, part) = tokio::task::spawn_blocking(move || {
                let mut part = Vec::with_capacity(PART);
                Read::by_ref(&mut file).take(PART as u64).read_to_end(&mut part)?;
                Ok::<_, io::Error>((file, part))
            })
            .await??;
            if part.is_empty() {
                return Ok(());
            }
            send_bytes(socket, &part).await?;
            file = back;
        }
    }
}

/// Waits until the socket accepts bytes. Fails after [`PATIENCE`].
async fn writable(socket: &tokio::net::TcpStream) -> io::Result<()> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the client does not read its reply");
    timeout(PATIENCE, socket.writable()).await.map_err(late)?
}

async fn send_bytes(socket: &tokio::net::TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        writable(socket).await?;
        match socket.try_write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The socket of a conversation, and its TLS session if it is encrypted.
pub(crate) struct Link {
    pub stream: Arc<TcpStream>,
    pub tls: Option<Arc<Tls>>,
}

/// A parked reply. Its channel closes when the reply has been sent, or delivers the part that the client does not read.
pub(crate) struct Parked(Receiver<Unsent>);

impl Parked {
    /// Parks the reply in `output` to the message with this `header` until the commit is durable. If the sync fails, an
    /// error is sent instead.
    pub(crate) fn new(
        server: &Arc<Server>,
        link: Link,
        commit: CommitId,
        header: [u8; HEADER_LEN],
        output: Vec<u8>,
    ) -> Parked {
        let (over, parked) = channel();
        let mut reply = Reply { output, sent: 0, server: server.clone(), link, over };
        let send = move |outcome: diwan_kv::Result<()>| {
            if let Err(error) = outcome {
                dispatch::fail(&reply.server, &header, error.into(), &mut reply.output);
            }
            reply.server.metrics.bytes_out.add(reply.output.len() as u64);
            if let Some(tls) = &reply.link.tls
                && tls.seal(&mut reply.output).is_err()
            {
                hang_up(&reply.link.stream);
                return;
            }
            // The syncing thread sends the replies of all connections, so it must not wait for one client.
            if !reply.send_at_once() {
                reply.hand_over();
            }
        };
        server.engine.on_durable(commit, Box::new(send));
        Parked(parked)
    }

    /// Waits until the reply was sent or cannot be sent. Returns the part that the client does not read.
    pub(crate) fn wait(self) -> Option<Unsent> {
        self.0.recv().ok()
    }
}

/// The reply as the syncing thread holds it.
struct Reply {
    output: Vec<u8>,
    sent: usize,
    server: Arc<Server>,
    link: Link,
    /// Dropped last, when this thread no longer uses the socket or the server.
    over: Sender<Unsent>,
}

impl Reply {
    /// Sends what the socket accepts without waiting. False if there is more to send.
    fn send_at_once(&mut self) -> bool {
        while self.sent < self.output.len() {
            let rest = &self.output[self.sent..];
            match send(&self.link.stream, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return false,
                Err(_) => {
                    hang_up(&self.link.stream);
                    return true;
                }
            }
        }
        true
    }

    /// Passes the rest to the conversation, after this thread has released the socket.
    fn hand_over(self) {
        let Reply { output, sent, server, link, over } = self;
        drop((link, server));
        // This fails if the conversation has ended because its client disconnected.
        let _ = over.send(Unsent { bytes: output, sent });
    }
}

/// Closes the socket of a client that got only a part of a reply.
fn hang_up(stream: &TcpStream) {
    // This fails if the client has already disconnected.
    let _ = stream.shutdown(Shutdown::Both);
}
