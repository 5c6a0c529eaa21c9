//! A snapshot: a read-only transaction on a borrowed connection, which shows one state until it ends.

use crate::connection::{Connection, column};
use crate::error::{Answer, Cause, cause, engine_error};
use crate::following::Following;
use crate::head;
use crate::pool::{Lent, Pool};
use crate::scan::{Scan, Scope};
use crate::value::owned_value_of;
use crate::wait::{send_only, wait};
use diwan_kv::{Bytes, Direction, Error, KeyRange, KeyVisitor, Pairs, Result, Snapshot, Space, Visitor};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Handle;

/// Begins the transaction. Reading the head fixes what it shows, in the same message.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ";

/// What errors of reads begin with.
pub(crate) const READING: &str = "reading from PostgreSQL";

/// The transaction. It ends when the snapshot and all its scans have been dropped.
pub(crate) struct Transaction {
    lent: Lent,
    handle: Handle,
}

impl Transaction {
    /// Begins one, and has the marker told of all that it shows. While the server is away, it waits.
    pub fn begin(pool: &Arc<Pool>, following: &Following) -> Result<Transaction> {
        following.check_fresh()?;
        let deadline = Instant::now() + pool.patience;
        loop {
            match Transaction::begin_on(pool.borrow(deadline)?, pool, following)? {
                Ok(transaction) => return Ok(transaction),
                // The server had restarted since the connection was last used.
                Err(error) if cause(&error) == Cause::Lost && Instant::now() < deadline => {}
                Err(error) => return Err(engine_error("beginning a snapshot in PostgreSQL", &error)),
            }
        }
    }

    fn begin_on(lent: Lent, pool: &Pool, following: &Following) -> Result<Answer<Transaction>> {
        let connection = lent.connection()?;
        match wait(head::read_after(&connection.client, BEGIN, &connection.schema)) {
            Ok(head) => {
                let transaction = Transaction { lent, handle: pool.server.handle.clone() };
                following.mark_through(head, transaction.connection()?)?;
                Ok(Ok(transaction))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// The connection.
    pub fn connection(&self) -> Result<&Connection> {
        self.lent.connection()
    }

    /// Where tasks run that read ahead.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The value of a key.
    pub fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let row = wait(self.connection()?.get(space, key)).map_err(|error| engine_error(READING, &error))?;
        row.map(|row| owned_value_of(column(&row, 0)?)).transpose()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Ok(connection) = self.lent.connection() {
            send_only(connection.client.batch_execute("COMMIT"));
        }
    }
}

/// A snapshot, or the reason why there is none.
pub(crate) struct PostgresSnapshot {
    transaction: Result<Arc<Transaction>>,
}

impl PostgresSnapshot {
    /// The state as of now.
    pub fn take(pool: &Arc<Pool>, following: &Following) -> PostgresSnapshot {
        PostgresSnapshot { transaction: Transaction::begin(pool, following).map(Arc::new) }
    }

    /// The same if a connection is idle.
    pub fn take_spare(pool: &Arc<Pool>, following: &Following) -> Option<PostgresSnapshot> {
        following.check_fresh().ok()?;
        let transaction = Transaction::begin_on(pool.borrow_idle()?, pool, following).ok()?.ok()?;
        Some(PostgresSnapshot { transaction: Ok(Arc::new(transaction)) })
    }

    fn transaction(&self) -> Result<&Arc<Transaction>> {
        self.transaction.as_ref().map_err(Error::clone)
    }
}

impl Snapshot for PostgresSnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.transaction()?.get(space, key)
    }

    fn get_many(&self, space: Space, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        let transaction = self.transaction()?;
        match keys {
            [] => Ok(Vec::new()),
            [key] => Ok(vec![transaction.get(space, key)?]),
            keys => {
                let found = wait(transaction.connection()?.get_many(space, keys));
                let found = found.map_err(|error| engine_error(READING, &error))?;
                let values = found.values()?;
                Ok(keys.iter().map(|key| values.get(key).cloned()).collect())
            }
        }
    }

    fn scan(&self, space: Space, range: KeyRange, direction: Direction) -> Pairs {
        match self.transaction() {
            Ok(transaction) => {
                Box::new(Scan::new(transaction.clone(), space, &range, direction, Scope::Pairs))
            }
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn visit_keys(&self, space: Space, range: KeyRange, visitor: &mut KeyVisitor<'_>) -> Result<()> {
        let transaction = self.transaction()?.clone();
        let mut scan = Scan::new(transaction, space, &range, Direction::Forward, Scope::Keys);
        while let Some((key, _)) = scan.next_pair()? {
            if visitor(key).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn visit(&self, space: Space, range: KeyRange, visitor: &mut Visitor<'_>) -> Result<()> {
        let transaction = self.transaction()?.clone();
        let mut scan = Scan::new(transaction, space, &range, Direction::Forward, Scope::Pairs);
        while let Some((key, value)) = scan.next_pair()? {
            if visitor(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}
