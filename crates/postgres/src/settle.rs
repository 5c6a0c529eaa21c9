//! What became of a group whose connection broke while it was being committed.
//!
//! A new connection takes the head's lock, which waits for the transaction of the old one if the server still has it. Then the
//! journal tells. If the group is not there and the head is still the one before, an empty group is put in its
//! place: from then on it cannot be applied, however late its messages arrive.

use crate::apply::Step;
use crate::committer::COMMITTING;
use crate::connection::Connection;
use crate::error::{Answer, Cause, cause, engine_error, io_error};
use crate::head::{self, Head};
use crate::journal::{self, ANY_PROCESS};
use crate::server::Server;
use crate::session::Role;
use diwan_kv::Result;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use tokio_postgres::types::ToSql;

/// What became of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was applied.
    Applied,
    /// It was not, and this empty group is in its place.
    RuledOut(Head),
    /// It was not, and another process's group is in its place.
    Passed,
}

/// A pause before the next attempt.
const PAUSE: Duration = Duration::from_millis(50);

/// Finds out what became of a group, until the deadline.
pub(crate) async fn settle(server: &Server, step: Step, deadline: Instant) -> Result<Outcome> {
    let empty = step.from.next();
    loop {
        let found = async {
            let connection = server.connect_until(Role::Writer, deadline).await?;
            find(&connection, step, empty).await
        };
        match found.await {
            Ok(Some(outcome)) => return Ok(outcome),
            Ok(None) => {
                let text = "PostgreSQL does not have the group before: it was restored, or a copy that lacks commits has \
                            become the primary";
                return Err(io_error(COMMITTING, ErrorKind::Other, text.into()));
            }
            Err(error) if Instant::now() < deadline && cause(&error) != Cause::Other => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(engine_error(COMMITTING, &error)),
        }
    }
}

/// What the tables say; `None` if they have another history.
async fn find(connection: &Connection, step: Step, empty: Head) -> Answer<Option<Outcome>> {
    let Connection { client, schema, .. } = connection;
    let Step { from, to, class, .. } = step;
    let head = head::lock(client, schema, class).await?;
    if head == from {
        let keys = journal::encode(std::iter::empty(), std::iter::empty());
        let row: [&(dyn ToSql + Sync); 5] = [&empty.number, &from.stamp, &empty.stamp, &keys, &ANY_PROCESS];
        client.execute(&journal::insert(schema, 1), &row).await?;
        client.batch_execute("COMMIT").await?;
        return Ok(Some(Outcome::RuledOut(empty)));
    }
    let rows = connection.journal(from.number, to.number).await?;
    client.batch_execute("ROLLBACK").await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (before, stamp): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
    Ok(match before == from.stamp {
        false => None,
        true if stamp == to.stamp => Some(Outcome::Applied),
        // An attempt before this one has put it there.
        true if stamp == empty.stamp => Some(Outcome::RuledOut(empty)),
        true => Some(Outcome::Passed),
    })
}
