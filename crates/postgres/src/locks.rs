//! The advisory locks of a store. Each has a key of two numbers: one of the schema, its class, and one of these:
//! - a process's number, which begins at 1: the process lives;
//! - [`LEADER`]: the process leads;
//! - [`HEAD`]: a group is being committed, or writes are evaluated while other processes are kept out.

use crate::error::Answer;
use tokio_postgres::Client;

/// The number of the lock that the leading process holds.
pub(crate) const LEADER: i32 = 0;

/// The number of the lock that whoever commits a group holds.
pub(crate) const HEAD: i32 = -1;

/// The statement that takes a lock until the transaction ends: class, number.
pub(crate) const LOCK: &str = "SELECT pg_advisory_xact_lock($1, $2)";

/// The statement that takes a lock until it is given back or the session ends: class, number.
pub(crate) const KEEP: &str = "SELECT pg_advisory_lock($1, $2)";

/// The statement that gives the head's lock back.
pub(crate) fn unlock_head(class: i32) -> String {
    format!("SELECT pg_advisory_unlock({class}, {HEAD})")
}

/// Takes a lock for the session, if it is free.
pub(crate) async fn try_lock(client: &Client, class: i32, number: i32) -> Answer<bool> {
    client.query_one("SELECT pg_try_advisory_lock($1, $2)", &[&class, &number]).await?.try_get(0)
}

/// The numbers of the processes that live.
pub(crate) async fn living(client: &Client, class: i32) -> Answer<Vec<i64>> {
    let sql = "SELECT l.objid::bigint FROM pg_catalog.pg_locks l \
               JOIN pg_catalog.pg_database d ON d.oid = l.database \
               WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database() \
               AND l.classid::bigint = $1 AND l.objid::bigint BETWEEN 1 AND 2147483647";
    let rows = client.query(sql, &[&i64::from(class.cast_unsigned())]).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}
