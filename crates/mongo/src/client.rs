//! What the server knows about one connection, and the registry of all.

use crate::connection::MAX_THREADS;
use diwan_value::DocBuf;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// One connection, as the commands that run on it see it.
#[derive(Debug)]
pub(crate) struct Client {
    /// The connection's number.
    pub id: i32,
    /// Where the client is.
    pub peer: SocketAddr,
    /// At which address it reached us.
    pub local: SocketAddr,
    /// What the driver told about itself in its first hello.
    pub metadata: Mutex<Option<DocBuf>>,
    /// Wakes the connection when it waits in silence, so that it closes.
    pub closing: Notify,
    /// The socket while the client talks.
    pub talking: Mutex<Option<Arc<TcpStream>>>,
}

impl Client {
    /// Whether the client has closed its side of the connection while it was waiting for an answer.
    pub(crate) fn is_gone(&self) -> bool {
        let stream = self.talking.lock().clone();
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        stream.is_some_and(|stream| match recv(&stream, &mut [0; 1], flags) {
            Ok((read, _)) => read == 0,
            Err(error) => error != Errno::WOULDBLOCK && error != Errno::INTR,
        })
    }

    /// The application's name that the driver was given.
    pub(crate) fn application(&self) -> Option<String> {
        let metadata = self.metadata.lock();
        let name = metadata.as_ref()?.as_doc().get_doc("application")?.get_str("name")?;
        Some(name.to_owned())
    }
}

/// The open connections.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    last: AtomicI32,
    open: Mutex<HashMap<i32, Arc<Client>>>,
}

impl Clients {
    /// Registers a connection until [`Clients::remove`].
    pub(crate) fn add(&self, peer: SocketAddr, local: SocketAddr) -> Arc<Client> {
        let id = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let client = Arc::new(Client {
            id,
            peer,
            local,
            metadata: Mutex::default(),
            closing: Notify::new(),
            talking: Mutex::default(),
        });
        self.open.lock().insert(id, client.clone());
        client
    }

    pub(crate) fn remove(&self, id: i32) {
        self.open.lock().remove(&id);
    }

    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// Asks every connection to close when the command that it runs is answered.
    pub(crate) fn close_all(&self) {
        for client in self.open.lock().values() {
            client.closing.notify_one();
            if let Some(stream) = client.talking.lock().as_ref() {
                // It fails where the client has gone already.
                let _ = stream.shutdown(Shutdown::Read);
            }
        }
    }
}

/// How many connections hold a thread.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    running: AtomicUsize,
}

impl Conversations {
    pub(crate) fn begin(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether others may be waiting for a thread.
    pub(crate) fn are_too_many(&self) -> bool {
        self.running.load(Ordering::Relaxed) >= MAX_THREADS
    }
}
