//! TLS of a connection.
//!
//! The handshake runs in the connection's task. Afterwards a conversation reads from the socket as it does without TLS,
//! and passes the bytes through the session: [`Tls::read`] decrypts what was received, [`Tls::seal`] encrypts a whole
//! reply before any of it is sent. So a reply that waits, in memory, in a file or for a sync, is already encrypted, and
//! whoever sends it needs no session.
//!
//! The session's lock is never held while a thread waits for the socket: the thread that syncs the journal encrypts
//! parked replies while the conversation waits for the next message.

use crate::server::options::TlsConfigs;
use parking_lot::Mutex;
use rustls::ServerConnection;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// How long a client may take for the handshake, and how long if many are incomplete.
const PATIENCE: Duration = Duration::from_secs(10);
const LITTLE_PATIENCE: Duration = Duration::from_secs(2);
/// How many incomplete handshakes are many.
const MANY: usize = 256;
/// How many bytes are received at a time.
const CHUNK: usize = 16 << 10;

/// The TLS session of a connection.
pub(crate) struct Tls(Mutex<Session>);

struct Session {
    connection: ServerConnection,
    /// The buffer for received bytes; those in `pending` have not been decrypted.
    received: Vec<u8>,
    pending: Range<usize>,
    /// Whether a read may succeed without the socket.
    may_have_more: bool,
}

/// Counts the handshakes that are incomplete. Clients that never complete theirs shorten the time that all have for it.
#[derive(Default)]
pub(crate) struct Handshakes(AtomicUsize);

/// An incomplete handshake.
struct Counted<'a>(&'a Handshakes);

impl Handshakes {
    fn begin(&self) -> Counted<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(self)
    }

    fn patience(&self) -> Duration {
        if self.0.load(Ordering::Relaxed) > MANY { LITTLE_PATIENCE } else { PATIENCE }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes the handshake. Returns the socket, the session and the subject of the client's certificate, if it has one.
pub(crate) async fn accept(
    configs: &TlsConfigs,
    handshakes: &Handshakes,
    stream: TcpStream,
) -> io::Result<(TcpStream, Arc<Tls>, Option<String>)> {
    let acceptor = TlsAcceptor::from(configs.borrow().clone());
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the client does not complete the TLS handshake");
    let _counted = handshakes.begin();
    let encrypted =
        tokio::time::timeout(handshakes.patience(), acceptor.accept(stream)).await.map_err(late)??;
    let (stream, mut connection) = encrypted.into_inner();
    // A reply is encrypted as a whole, however long it is.
    connection.set_buffer_limit(None);
    let subject = connection.peer_certificates().and_then(|chain| subject(chain.first()?));
    let session = Session { connection, received: Vec::new(), pending: 0..0, may_have_more: true };
    Ok((stream, Arc::new(Tls(Mutex::new(session))), subject))
}

/// The subject of a certificate as RFC 4514 writes it, which is the user's name for X.509.
fn subject(certificate: &[u8]) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    Some(certificate.tbs_certificate.subject.to_string())
}

impl Tls {
    /// Reads decrypted bytes. `receive` reads from the socket; its errors are returned.
    pub(crate) fn read(
        &self,
        into: &mut [u8],
        mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let mut buffer = {
                let mut session = self.0.lock();
                if let Some(read) = session.read(into)? {
                    return Ok(read);
                }
                std::mem::take(&mut session.received)
            };
            // The lock is not held while this waits. Nobody else reads.
            buffer.resize(CHUNK, 0);
            let received = receive(&mut buffer);
            let mut session = self.0.lock();
            session.received = buffer;
            match received? {
                0 => return Ok(0),
                count => session.pending = 0..count,
            }
        }
    }

    /// Frees the buffer of a connection that is idle.
    pub(crate) fn release(&self) {
        let mut session = self.0.lock();
        if session.pending.is_empty() {
            session.received = Vec::new();
        }
    }

    /// Whether bytes that were already received may give a read.
    pub(crate) fn may_have_more(&self) -> bool {
        self.0.lock().may_have_more
    }

    /// Replaces a reply with its encrypted form, which is ready to be sent.
    pub(crate) fn seal(&self, reply: &mut Vec<u8>) -> io::Result<()> {
        let mut session = self.0.lock();
        session.connection.writer().write_all(reply)?;
        reply.clear();
        while session.connection.wants_write() {
            session.connection.write_tls(reply)?;
        }
        Ok(())
    }
}

impl Session {
    /// Reads from what was received. `None` if that gives nothing.
    fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.connection.reader().read(into) {
                Ok(read) => {
                    self.may_have_more = read > 0;
                    return Ok(Some(read));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.pending.is_empty() {
                self.may_have_more = false;
                return Ok(None);
            }
            let mut rest = &self.received[self.pending.clone()];
            match self.connection.read_tls(&mut rest)? {
                0 => return Err(io::ErrorKind::InvalidData.into()),
                taken => self.pending.start += taken,
            }
            let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            self.connection.process_new_packets().map_err(invalid)?;
        }
    }
}
