//! The registry of connections, and what commands see of their own connection.

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

/// One connection, as its commands see it.
#[derive(Debug)]
pub(crate) struct Client {
    /// The connection's number.
    pub id: i32,
    /// The client's address.
    pub peer: SocketAddr,
    /// The local address of the connection.
    pub local: SocketAddr,
    /// The metadata that the driver sent in its first hello.
    pub metadata: Mutex<Option<DocBuf>>,
    /// Wakes an idle connection so that it closes.
    pub closing: Notify,
    /// The socket while the connection has a thread.
    pub talking: Mutex<Option<Arc<TcpStream>>>,
}

impl Client {
    /// Whether the client has disconnected while its command runs.
    pub(crate) fn is_gone(&self) -> bool {
        let stream = self.talking.lock().clone();
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        stream.is_some_and(|stream| match recv(&stream, &mut [0; 1], flags) {
            Ok((read, _)) => read == 0,
            Err(error) => error != Errno::WOULDBLOCK && error != Errno::INTR,
        })
    }

    /// The name of the application, from the driver's metadata.
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
    /// Registers a connection. [`Clients::remove`] must follow.
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

    /// Makes every connection close after its current command.
    pub(crate) fn close_all(&self) {
        for client in self.open.lock().values() {
            client.closing.notify_one();
            if let Some(stream) = client.talking.lock().as_ref() {
                // This fails if the client has already disconnected.
                let _ = stream.shutdown(Shutdown::Read);
            }
        }
    }
}

/// The number of connections that have a thread.
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

    /// Whether other connections may be waiting for a thread.
    pub(crate) fn are_too_many(&self) -> bool {
        self.running.load(Ordering::Relaxed) >= MAX_THREADS
    }
}
