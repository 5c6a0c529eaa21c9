//! The head: the last group of commits, which is the last row of the [journal](crate::journal).
//!
//! A group's transaction takes a lock that all processes share, and adds the row with the next number, under the condition that the row
//! before is the one that its process knows. Where it is not, the row has a null that its column forbids, or a number that is there
//! already. So the transaction fails as a whole, also when all its statements have been sent at once. The lock only keeps
//! order: what a group relies on is the condition.
//!
//! The lock is the transaction's, or the session's where writes are evaluated under it ([`crate::locks`]). When a process is
//! killed, the server ends its session and with it the lock. Each row has
//! a stamp, a random number. It tells apart groups of one number, of which there are two after a server was restored or a copy that
//! lacks commits has become the primary.
//!
//! There is no row that each group changes: as long as a snapshot is held anywhere, the server keeps all versions of such a
//! row, and each change has to pass them.

use crate::error::Answer;
use crate::locks::HEAD;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// A group of commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// How many groups there were before.
    pub number: i64,
    /// A random number.
    pub stamp: i64,
}

impl Head {
    /// A group after this one, with a new stamp.
    pub fn next(self) -> Head {
        use std::hash::{BuildHasher, RandomState};
        let stamp = RandomState::new().hash_one(self.number).cast_signed();
        Head { number: self.number + 1, stamp }
    }
}

/// Whether a group failed because the head was not what its process knew.
pub(crate) fn is_stale(error: &Error) -> bool {
    let is_of = |code| error.code() == Some(&code);
    is_of(SqlState::NOT_NULL_VIOLATION) || is_of(SqlState::UNIQUE_VIOLATION)
}

/// How a transaction begins that writes. A statement that has waited for a lock sees what was committed meanwhile.
pub(crate) const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Begins a transaction that has the lock. Waits for the transactions before it.
pub(crate) async fn lock(client: &Client, schema: &str, class: i32) -> Answer<Head> {
    read_locked(client, &format!("{BEGIN_WRITE}; "), schema, class).await
}

/// Reads the head in a transaction that takes the lock first, after statements that travel with it.
pub(crate) async fn read_locked(client: &Client, before: &str, schema: &str, class: i32) -> Answer<Head> {
    let lock = format!("{before}SELECT pg_advisory_xact_lock({class}, {HEAD}); ");
    read_after(client, &lock, schema).await
}

/// The statement that reads the head.
pub(crate) fn last(schema: &str) -> String {
    format!("SELECT number, stamp FROM {schema}.journal ORDER BY number DESC LIMIT 1")
}

/// Reads the head, after statements that travel with the query.
pub(crate) async fn read_after(client: &Client, before: &str, schema: &str) -> Answer<Head> {
    let sql = format!("{before}{}", last(schema));
    let answers = client.simple_query(&sql).await?;
    let found = answers.iter().rev().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => {
            Some(Head { number: row.get(0)?.parse().ok()?, stamp: row.get(1)?.parse().ok()? })
        }
        _ => None,
    });
    // The first row is made with the schema, and the last is never deleted.
    Ok(found.unwrap_or_default())
}

/// Gives a process that opens the store its number, and asks for the [lease](crate::lease), as it is going to commit.
pub(crate) async fn enlist(client: &Client, schema: &str) -> Answer<(i64, Head)> {
    let sql = format!(
        "UPDATE {schema}.processes SET last = last + 1, lease = -abs(lease) WHERE one = 1 RETURNING last"
    );
    let process = client.query_one(&sql, &[]).await?.try_get(0)?;
    client.batch_execute(&format!("NOTIFY {schema}")).await?;
    Ok((process, read_after(client, "", schema).await?))
}
