//! Replies that wait: for the disk, sent by whoever learns that the commit is durable; and for a client that does not
//! read, sent by a task. No thread waits for either.
//!
//! A conversation parks its reply and reads on. At most one reply is parked for each conversation: before it sends or
//! parks another, and before it gives the socket back, it waits for the one under way, so replies keep their order.

use crate::dispatch;
use crate::server::Server;
use crate::wire::HEADER_LEN;
use diwan_kv::CommitId;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::time::timeout;

/// How long a client may take nothing of a reply.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a client has not taken of a reply.
pub(crate) struct Unsent {
    /// The reply.
    pub bytes: Vec<u8>,
    /// How much of it was sent.
    pub sent: usize,
}

impl Unsent {
    /// Sends it as the client takes it; fails if it takes nothing for long.
    pub(crate) async fn send(mut self, socket: &tokio::net::TcpStream) -> io::Result<()> {
        while self.sent < self.bytes.len() {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the client takes no reply");
            timeout(PATIENCE, socket.writable()).await.map_err(late)??;
            match socket.try_write(&self.bytes[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A reply under way: the channel closes when nothing more will be sent, or gives what the client does not take.
pub(crate) struct Parked(Receiver<Unsent>);

impl Parked {
    /// Parks the reply in `output` to the message that begins with `header` until the commit is durable; it becomes an
    /// error if the commit never does.
    pub(crate) fn new(
        server: &Arc<Server>,
        stream: &Arc<TcpStream>,
        commit: CommitId,
        header: [u8; HEADER_LEN],
        output: Vec<u8>,
    ) -> Parked {
        let (over, parked) = channel();
        let mut reply = Reply { output, sent: 0, server: server.clone(), stream: stream.clone(), over };
        let send = move |outcome: diwan_kv::Result<()>| {
            if let Err(error) = outcome {
                dispatch::fail(&reply.server, &header, error.into(), &mut reply.output);
            }
            reply.server.metrics.bytes_out.add(reply.output.len() as u64);
            // The thread that calls this serves everybody: a client that takes nothing must not hold up the others.
            if !reply.send_at_once() {
                reply.leave();
            }
        };
        server.engine.on_durable(commit, Box::new(send));
        Parked(parked)
    }

    /// Waits until the reply is durable and was sent, cannot be, or waits for the client.
    pub(crate) fn wait(self) -> Option<Unsent> {
        self.0.recv().ok()
    }
}

/// What is to be sent.
struct Reply {
    output: Vec<u8>,
    sent: usize,
    server: Arc<Server>,
    stream: Arc<TcpStream>,
    /// Dropped last: then the conversation has the socket to itself, and the server may end.
    over: Sender<Unsent>,
}

impl Reply {
    /// Sends what the socket takes without waiting; false if there is more.
    fn send_at_once(&mut self) -> bool {
        while self.sent < self.output.len() {
            let rest = &self.output[self.sent..];
            match send(&self.stream, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return false,
                Err(_) => {
                    hang_up(&self.stream);
                    return true;
                }
            }
        }
        true
    }

    /// Leaves the rest to the conversation, which has the socket to itself by then.
    fn leave(self) {
        let Reply { output, sent, server, stream, over } = self;
        drop((stream, server));
        // Nobody takes it where the conversation has ended: then its client is gone.
        let _ = over.send(Unsent { bytes: output, sent });
    }
}

/// Ends the conversation: its client got a part of a reply, or is gone.
fn hang_up(stream: &TcpStream) {
    // It fails where the client has gone already.
    let _ = stream.shutdown(Shutdown::Both);
}
