//! The connections for reading: a bounded number that snapshots borrow, and a few that single reads share.
//!
//! A snapshot is a transaction, so it needs a connection for itself. A single read needs one only for a moment, and
//! several can be on the way on one connection; so single reads never wait for snapshots.
//!
//! An operation may take a second snapshot while it holds one. If all connections were lent to such operations, each would wait
//! for the others. So a thread that has borrowed a connection may exceed the bound, up to twice the number.

use crate::connection::Connection;
use crate::error::{Answer, Cause, cause, engine_error, io_error};
use crate::server::Server;
use crate::session::Role;
use diwan_kv::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

thread_local! {
    /// How many connections this thread has borrowed that are not back yet.
    static BORROWED: Arc<AtomicUsize> = Arc::default();
}

/// How many connections single reads share.
const SHARED: usize = 4;

/// A pause before a read is tried again.
const PAUSE: Duration = Duration::from_millis(10);

/// The connections of an engine for reading.
pub(crate) struct Pool {
    pub server: Arc<Server>,
    pub patience: Duration,
    most: usize,
    lending: Mutex<Lending>,
    returned: Condvar,
    shared: [Mutex<Option<Arc<Connection>>>; SHARED],
    turn: AtomicUsize,
}

#[derive(Default)]
struct Lending {
    idle: Vec<Connection>,
    /// Idle ones and lent ones.
    open: usize,
    closed: bool,
}

impl Lending {
    fn take_idle(&mut self) -> Option<Connection> {
        while let Some(connection) = self.idle.pop() {
            if !connection.client.is_closed() {
                return Some(connection);
            }
            self.open -= 1;
        }
        None
    }
}

impl Pool {
    /// A pool that lends at most `most` connections at a time.
    pub fn new(server: Arc<Server>, most: usize, patience: Duration) -> Pool {
        Pool {
            server,
            patience,
            most: most.max(1),
            lending: Mutex::default(),
            returned: Condvar::new(),
            shared: Default::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Borrows a connection until the result is dropped.
    pub fn borrow(self: &Arc<Self>, deadline: Instant) -> Result<Lent> {
        let borrowed = BORROWED.with(Arc::clone);
        let most = if borrowed.load(Ordering::Relaxed) > 0 { 2 * self.most } else { self.most };
        let mut lending = self.lending.lock();
        loop {
            if lending.closed {
                return Err(Error::Closed);
            }
            if let Some(connection) = lending.take_idle() {
                return Ok(Lent::new(Some(connection), self, borrowed));
            }
            if lending.open < most {
                lending.open += 1;
                drop(lending);
                // Counted as lent from now on, so that a failure gives the place back.
                let mut lent = Lent::new(None, self, borrowed);
                lent.connection = Some(self.server.connect_blocking(Role::Reader, deadline)?);
                return Ok(lent);
            }
            if self.returned.wait_until(&mut lending, deadline).timed_out() {
                let text = format!(
                    "all {} connections have been in use for {:?}; end long queries and transactions, or allow more connections",
                    self.most, self.patience
                );
                return Err(io_error("waiting for a connection to PostgreSQL", ErrorKind::TimedOut, text));
            }
        }
    }

    /// Borrows a connection if one is idle.
    pub fn borrow_idle(self: &Arc<Self>) -> Option<Lent> {
        let connection = self.lending.lock().take_idle()?;
        Some(Lent::new(Some(connection), self, BORROWED.with(Arc::clone)))
    }

    /// A connection for one read, which others use as well.
    pub fn shared(&self, deadline: Instant) -> Result<Arc<Connection>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % SHARED;
        let mut slot = self.shared[turn].lock();
        if let Some(connection) = slot.as_ref().filter(|connection| !connection.client.is_closed()) {
            return Ok(connection.clone());
        }
        if self.lending.lock().closed {
            return Err(Error::Closed);
        }
        let connection = Arc::new(self.server.connect_blocking(Role::Reader, deadline)?);
        *slot = Some(connection.clone());
        Ok(connection)
    }

    /// Runs a read on a shared connection, again and again while the server is away.
    pub fn with_shared<T>(&self, context: &'static str, run: impl Fn(&Connection) -> Answer<T>) -> Result<T> {
        let deadline = Instant::now() + self.patience;
        loop {
            let connection = self.shared(deadline)?;
            match run(&connection) {
                Ok(found) => return Ok(found),
                Err(error) if cause(&error) == Cause::Lost && Instant::now() < deadline => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(engine_error(context, &error)),
            }
        }
    }

    /// Closes idle connections, and lends no more.
    pub fn close(&self) {
        let mut lending = self.lending.lock();
        lending.closed = true;
        lending.idle.clear();
        drop(lending);
        self.returned.notify_all();
        for slot in &self.shared {
            *slot.lock() = None;
        }
    }

    fn take_back(&self, connection: Option<Connection>) {
        let mut lending = self.lending.lock();
        let is_kept = !lending.closed && lending.open <= self.most;
        match connection.filter(|connection| is_kept && !connection.client.is_closed()) {
            Some(connection) => lending.idle.push(connection),
            None => lending.open -= 1,
        }
        drop(lending);
        self.returned.notify_one();
    }
}

/// A borrowed connection.
pub(crate) struct Lent {
    connection: Option<Connection>,
    pool: Arc<Pool>,
    borrowed: Arc<AtomicUsize>,
}

impl Lent {
    fn new(connection: Option<Connection>, pool: &Arc<Pool>, borrowed: Arc<AtomicUsize>) -> Lent {
        borrowed.fetch_add(1, Ordering::Relaxed);
        Lent { connection, pool: pool.clone(), borrowed }
    }

    /// The connection; none only while it is being made.
    pub fn connection(&self) -> Result<&Connection> {
        self.connection.as_ref().ok_or(Error::Closed)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.borrowed.fetch_sub(1, Ordering::Relaxed);
        self.pool.take_back(self.connection.take());
    }
}
