//! Replies that wait for the disk: sent by whoever learns that the commit is durable, so that no thread waits for it.
//!
//! A conversation parks its reply and reads on. At most one reply is parked for each conversation: before it sends or
//! parks another, and before it gives the socket back, it waits for the one under way, so replies keep their order.

use crate::dispatch;
use crate::server::Server;
use crate::wire::HEADER_LEN;
use diwan_kv::CommitId;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::convert::Infallible;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::runtime::Handle;

/// A reply under way: nothing comes through this channel, it closes when nothing more will be sent.
pub(crate) struct Parked(Receiver<Infallible>);

impl Parked {
    /// Parks the reply in `output` to the message that begins with `header` until the commit is durable; it becomes an
    /// error if the commit never does.
    pub(crate) fn new(
        server: &Arc<Server>,
        stream: &Arc<TcpStream>,
        runtime: &Handle,
        commit: CommitId,
        header: [u8; HEADER_LEN],
        output: Vec<u8>,
    ) -> Parked {
        let (over, parked) = channel();
        let mut reply =
            Reply { output, sent: 0, server: server.clone(), stream: stream.clone(), _over: over };
        let runtime = runtime.clone();
        let send = move |outcome: diwan_kv::Result<()>| {
            if let Err(error) = outcome {
                dispatch::fail(&reply.server, &header, error.into(), &mut reply.output);
            }
            reply.server.metrics.bytes_out.add(reply.output.len() as u64);
            // The thread that calls this serves everybody: a client that takes nothing must not hold up the others.
            if !reply.send_at_once() {
                runtime.spawn_blocking(move || reply.send_rest());
            }
        };
        server.engine.on_durable(commit, Box::new(send));
        Parked(parked)
    }

    /// Waits until the reply has been sent, or cannot be.
    pub(crate) fn wait(self) {
        let Err(_closed) = self.0.recv();
    }
}

/// What is to be sent.
struct Reply {
    output: Vec<u8>,
    sent: usize,
    server: Arc<Server>,
    stream: Arc<TcpStream>,
    /// Dropped last: then the conversation has the socket to itself, and the server may end.
    _over: Sender<Infallible>,
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
                    self.hang_up();
                    return true;
                }
            }
        }
        true
    }

    fn send_rest(self) {
        if (&*self.stream).write_all(&self.output[self.sent..]).is_err() {
            self.hang_up();
        }
    }

    /// Ends the conversation: its client got a part of a reply, or is gone.
    fn hang_up(&self) {
        // It fails where the client has gone already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
