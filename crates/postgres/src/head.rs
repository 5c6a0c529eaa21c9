//! The head: one row with the number of the last group of commits and its stamp, a random number.
//!
//! A group's transaction begins by moving the head on, under the condition that it is the one that its process knows. The
//! statement sets the number to null where it is not, which the column forbids. So the transaction fails as a whole, also
//! when all its statements have been sent at once. While it runs it has the row's lock, so that nobody commits beside it.
//!
//! The lock is the transaction's: when a process is killed, the server ends its session and with it the lock. The stamp
//! tells apart groups of one number, of which there are two after a server was restored or a copy that lacks commits has
//! become the primary.

use crate::error::Answer;
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

/// The statement that moves the head on for a group: number and stamp before, stamp after.
pub(crate) fn advance(schema: &str) -> String {
    format!(
        "UPDATE {schema}.head SET number = CASE WHEN number = $1 AND stamp = $2 THEN $1 + 1 END, stamp = $3 \
         WHERE one = 1"
    )
}

/// Whether a group failed because the head was not what its process knew.
pub(crate) fn is_stale(error: &Error) -> bool {
    error.code() == Some(&SqlState::NOT_NULL_VIOLATION)
}

/// How a transaction begins that writes. A statement that has waited for a lock sees what was committed meanwhile.
pub(crate) const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Begins a transaction that has the head's lock. Waits for the transactions before it.
pub(crate) async fn lock(client: &Client, schema: &str) -> Answer<Head> {
    read_after(client, &format!("{BEGIN_WRITE}; "), schema, "FOR UPDATE").await
}

/// Reads the head, after statements that travel with the query.
pub(crate) async fn read_after(client: &Client, before: &str, schema: &str, how: &str) -> Answer<Head> {
    let sql = format!("{before}SELECT number, stamp FROM {schema}.head WHERE one = 1 {how}");
    let answers = client.simple_query(&sql).await?;
    let found = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => {
            Some(Head { number: row.get(0)?.parse().ok()?, stamp: row.get(1)?.parse().ok()? })
        }
        _ => None,
    });
    // The row is made with the schema and is never deleted.
    Ok(found.unwrap_or_default())
}

/// Gives a process that opens the store its number.
pub(crate) async fn enlist(client: &Client, schema: &str) -> Answer<(i64, Head)> {
    let sql = format!(
        "UPDATE {schema}.head SET processes = processes + 1 WHERE one = 1 RETURNING processes, number, stamp"
    );
    let row = client.query_one(&sql, &[]).await?;
    Ok((row.try_get(0)?, Head { number: row.try_get(1)?, stamp: row.try_get(2)? }))
}
