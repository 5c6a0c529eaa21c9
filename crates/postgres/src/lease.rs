//! The right to write: one row, which each group of commits moves on.
//!
//! The row has the number of its holder, and the number of the last group of commits. A group's transaction begins by
//! moving the group number on, under the condition that both numbers are those that its process knows. The statement
//! sets the number to null where they are not, which the column forbids. So the transaction fails as a whole, also when all its
//! statements have been sent at once. While it runs, it has the row's lock, so that nobody writes beside it.
//!
//! The row also has the time of the holder's last sign of life, by the server's clock: a group, or a renewal when there is
//! nothing to commit. A process takes the row over when it is free, or when there has been no sign for a while. That
//! is a courtesy to a living holder. What keeps a former holder from writing is the number.

use crate::OpenError;
use crate::error::{Answer, text};
use crate::options::Options;
use crate::server::Server;
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

/// How often a process looks at a row that another one has.
const LOOK: Duration = Duration::from_millis(200);

/// What a process knows of the row that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// The number of this holder.
    pub holder: i64,
    /// The number of the last group of commits.
    pub group: i64,
}

/// What the row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub lease: Lease,
    since: String,
    renewed: Option<String>,
    expired: bool,
    host: String,
    pid: i64,
}

impl Seen {
    /// Who holds the row.
    pub fn holder(&self) -> String {
        format!("process {} on {}, since {}", self.pid, self.host, self.since)
    }
}

/// Reads the row.
pub(crate) async fn look(client: &Client, schema: &str, patience: Duration) -> Answer<Seen> {
    let sql = format!(
        "SELECT holder, group_number, since::text, renewed_at::text, \
         coalesce(renewed_at + interval '{} milliseconds' < clock_timestamp(), true), host, pid \
         FROM {schema}.lease WHERE one = 1",
        patience.as_millis()
    );
    let row = client.query_one(&sql, &[]).await?;
    Ok(Seen {
        lease: Lease { holder: row.try_get(0)?, group: row.try_get(1)? },
        since: row.try_get(2)?,
        renewed: row.try_get(3)?,
        expired: row.try_get(4)?,
        host: row.try_get(5)?,
        pid: row.try_get(6)?,
    })
}

/// Takes the row, when it is free or has been silent for `options.lease`. Waits for that if there was no sign of life since this
/// call began.
pub(crate) async fn take(server: &Server, client: &Client, options: &Options) -> Result<Lease, OpenError> {
    let schema = &server.target.schema;
    let failed = |error: Error| match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => OpenError::NoRight {
            user: server.target.user().to_owned(),
            schema: schema.clone(),
            reason: text(&error),
        },
        _ => OpenError::Server { context: "cannot take the store over".into(), reason: text(&error) },
    };
    let first = look(client, schema, options.lease).await.map_err(failed)?;
    let in_use = |seen: &Seen| OpenError::InUse {
        schema: schema.clone(),
        since: seen.since.clone(),
        host: seen.host.clone(),
        pid: seen.pid,
    };
    if !first.expired {
        tracing::info!("waiting whether the holder of the store still lives: {}", first.holder());
    }
    let mut seen = first.clone();
    let began = Instant::now();
    loop {
        if seen.expired {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let sql = format!(
                "UPDATE {schema}.lease SET holder = holder + 1, since = clock_timestamp(), \
                 renewed_at = clock_timestamp(), host = $1, pid = $2 \
                 WHERE one = 1 AND holder = $3 AND group_number = $4 AND (renewed_at IS NULL \
                 OR renewed_at + interval '{} milliseconds' < clock_timestamp()) RETURNING holder, group_number",
                options.lease.as_millis()
            );
            let pid = i64::from(std::process::id());
            let taken = client.query_opt(&sql, &[&host, &pid, &seen.lease.holder, &seen.lease.group]).await;
            match taken {
                Ok(Some(row)) => return Ok(Lease { holder: row.get(0), group: row.get(1) }),
                Ok(None) => {}
                // The row's lock is held for long, by a commit that takes its time.
                Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => return Err(in_use(&seen)),
                Err(error) => return Err(failed(error)),
            }
        }
        tokio::time::sleep(LOOK).await;
        seen = look(client, schema, options.lease).await.map_err(failed)?;
        let moved = seen.lease != first.lease || seen.renewed != first.renewed;
        if (moved && !seen.expired) || began.elapsed() > 3 * options.lease {
            return Err(in_use(&seen));
        }
    }
}

/// The statement that moves the row on for a group: holder, the last group.
pub(crate) fn advance(schema: &str) -> String {
    format!(
        "UPDATE {schema}.lease SET group_number = CASE WHEN holder = $1 AND group_number = $2 THEN $2 + 1 END, \
         renewed_at = clock_timestamp() WHERE one = 1"
    )
}

/// Whether a group failed because its process no longer holds the row.
pub(crate) fn is_fenced(error: &Error) -> bool {
    error.code() == Some(&SqlState::NOT_NULL_VIOLATION)
}

/// Moves the row on by two, if the group after `lease` has not been applied: from then on it cannot be, however late its
/// statements arrive. False if the row is not as `lease` says. Waits for a transaction that is about to change the row.
pub(crate) async fn rule_out(client: &Client, schema: &str, lease: Lease) -> Answer<bool> {
    let sql = format!(
        "UPDATE {schema}.lease SET group_number = $2 + 2, renewed_at = clock_timestamp() \
         WHERE one = 1 AND holder = $1 AND group_number = $2"
    );
    Ok(client.execute(&sql, &[&lease.holder, &lease.group]).await? == 1)
}

/// Gives a sign of life; false if the row is no longer held.
pub(crate) async fn renew(client: &Client, schema: &str, lease: Lease) -> Answer<bool> {
    let sql = format!(
        "UPDATE {schema}.lease SET renewed_at = clock_timestamp() WHERE one = 1 AND holder = $1 AND group_number = $2"
    );
    Ok(client.execute(&sql, &[&lease.holder, &lease.group]).await? == 1)
}

/// Frees the row.
pub(crate) async fn release(client: &Client, schema: &str, lease: Lease) -> Answer<()> {
    let sql = format!("UPDATE {schema}.lease SET renewed_at = NULL WHERE one = 1 AND holder = $1");
    client.execute(&sql, &[&lease.holder]).await.map(drop)
}
