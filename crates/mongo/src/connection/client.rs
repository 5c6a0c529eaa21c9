//! The registry of connections, and what commands see of their own connection.

use crate::connection::MAX_THREADS;
use crate::sign_in::SignIn;
use diwan_access::Caller;
use diwan_query::Interrupt;
use diwan_value::DocBuf;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// One connection, as its commands see it.
pub(crate) struct Client {
    /// The connection's number.
    pub id: i32,
    /// The client's address.
    pub peer: SocketAddr,
    /// The local address of the connection.
    pub local: SocketAddr,
    /// The metadata that the driver sent in its first hello.
    pub metadata: Mutex<Option<DocBuf>>,
    /// The subject of the certificate that the client showed in the TLS handshake.
    certificate_subject: OnceLock<String>,
    /// The user who has signed in.
    pub caller: Mutex<Caller>,
    /// The unfinished sign-in.
    pub sign_in: Mutex<Option<SignIn>>,
    /// Wakes an idle connection so that it closes.
    pub closing: Notify,
    /// The socket while the connection has a thread.
    pub talking: Mutex<Option<Arc<TcpStream>>>,
    /// Killed when the client of a command that came over HTTP has gone away.
    visit: Option<Interrupt>,
}

impl Client {
    fn new(id: i32, peer: SocketAddr, local: SocketAddr, caller: Caller) -> Client {
        Client {
            id,
            peer,
            local,
            metadata: Mutex::default(),
            certificate_subject: OnceLock::new(),
            caller: Mutex::new(caller),
            sign_in: Mutex::default(),
            closing: Notify::new(),
            talking: Mutex::default(),
            visit: None,
        }
    }

    /// Whether the client has disconnected while its command runs.
    pub(crate) fn is_gone(&self) -> bool {
        if let Some(visit) = &self.visit {
            return visit.is_killed();
        }
        let stream = self.talking.lock().clone();
        // Bytes that wait, such as the end of a TLS session, do not hide that the client has closed its side.
        let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        stream.is_some_and(|stream| {
            let mut polled = [PollFd::new(&stream, closed)];
            poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().intersects(closed)
        })
    }

    /// Makes the connection close after its current command.
    fn close(&self) {
        self.closing.notify_one();
        if let Some(stream) = self.talking.lock().as_ref() {
            // This fails if the client has already disconnected.
            let _ = stream.shutdown(Shutdown::Read);
        }
    }

    /// Sets the subject of the client's certificate, after the TLS handshake.
    pub(crate) fn set_certificate_subject(&self, subject: Option<String>) {
        if let Some(subject) = subject {
            self.certificate_subject.get_or_init(|| subject);
        }
    }

    /// The subject of the client's certificate.
    pub(crate) fn certificate_subject(&self) -> Option<&str> {
        self.certificate_subject.get().map(String::as_str)
    }

    /// The name of the application, from the driver's metadata.
    pub(crate) fn application(&self) -> Option<String> {
        let metadata = self.metadata.lock();
        let name = metadata.as_ref()?.as_doc().get_doc("application")?.get_str("name")?;
        Some(name.to_owned())
    }
}

/// The open connections.
#[derive(Default)]
pub(crate) struct Clients {
    last: AtomicI32,
    open: Mutex<BTreeMap<i32, Arc<Client>>>,
}

impl Clients {
    /// Registers a connection. [`Clients::remove`] must follow.
    pub(crate) fn add(&self, peer: SocketAddr, local: SocketAddr) -> Arc<Client> {
        let id = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let client = Arc::new(Client::new(id, peer, local, Caller::Anonymous));
        self.open.lock().insert(id, client.clone());
        client
    }

    /// A client whose commands come over HTTP, one by one. It has a number like a connection, and is not in the registry.
    pub(crate) fn visitor(&self, peer: SocketAddr, caller: Caller, visit: Interrupt) -> Arc<Client> {
        let id = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Arc::new(Client { visit: Some(visit), ..Client::new(id, peer, peer, caller) })
    }

    pub(crate) fn remove(&self, id: i32) {
        self.open.lock().remove(&id);
    }

    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// Closes the oldest connection on which nobody has signed in. Returns whether there was one.
    pub(crate) fn evict_anonymous(&self) -> bool {
        let mut open = self.open.lock();
        let found = open.values().find(|client| matches!(*client.caller.lock(), Caller::Anonymous)).cloned();
        let Some(client) = found else { return false };
        // Its task removes it again, which changes nothing.
        open.remove(&client.id);
        client.close();
        true
    }

    /// Makes every connection close after its current command.
    pub(crate) fn close_all(&self) {
        for client in self.open.lock().values() {
            client.close();
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
