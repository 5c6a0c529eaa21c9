//! Runs a group of batches as one transaction.
//!
//! Without conditions all statements are sent at once. With conditions there are two messages: up to the reading of
//! the conditions' keys, and from the writes to the end.

use crate::connection::Connection;
use crate::error::Answer;
use crate::group::{Commit, Decision, Known, Statement, decide, kinds, looked_up};
use crate::lease::{Lease, advance};
use crate::statements::Kind;
use crate::value::Stored;
use crate::wait::{Sent, send};
use diwan_kv::{Bytes, Error};
use std::sync::OnceLock;

/// The connection that commits.
pub(crate) struct Writer {
    pub connection: Connection,
    advance: OnceLock<tokio_postgres::Statement>,
}

/// Why a group was not applied, or may not have been.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server's error, or that of the connection.
    Server(tokio_postgres::Error),
    /// What the tables have is damaged.
    Stored(Error),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Failure::Server(error)
    }
}

/// How far a group has come.
#[derive(Default)]
pub(crate) struct Progress {
    /// For each batch the first condition that does not hold.
    pub failed: Vec<Option<usize>>,
    /// Whether the end of the transaction has been sent, so that it may have been applied.
    pub is_committing: bool,
}

impl Writer {
    pub fn new(connection: Connection) -> Writer {
        Writer { connection, advance: OnceLock::new() }
    }

    /// Applies a group; false if nothing was to be written. `progress` says how far it came, also after a failure.
    pub async fn apply(
        &self,
        lease: Lease,
        commits: &[Commit],
        progress: &mut Progress,
    ) -> Result<bool, Failure> {
        let client = &self.connection.client;
        // A statement that still had to be prepared would come after those that are sent behind it.
        for (kind, space) in kinds(commits) {
            self.connection.prepare(kind, space).await?;
        }
        let advance = self.advance_statement().await?;
        let begin = send(client.batch_execute("BEGIN")).await;
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&lease.holder, &lease.group];
        let advanced = send(client.execute(advance, &parameters)).await;
        let mut known = Known::new();
        let mut reads = Vec::new();
        for (space, keys) in looked_up(commits) {
            let read = async move { self.connection.get_many(space, &keys).await };
            reads.push((space, send(read).await));
        }
        let mut started = Some((begin, advanced));
        if !reads.is_empty() {
            begun(started.take()).await?;
            for (space, read) in reads {
                let found = read.answer().await?;
                let values = found.values().map_err(Failure::Stored)?;
                known.extend(values.into_iter().map(|(key, value)| ((space, Bytes::from(key)), value)));
            }
        }
        let decision = decide(commits, &known);
        progress.failed.clone_from(&decision.failed);
        if decision.writes.is_empty() {
            begun(started.take()).await?;
            client.batch_execute("ROLLBACK").await?;
            return Ok(false);
        }
        self.write(&decision, started, progress).await?;
        Ok(true)
    }

    async fn write(
        &self,
        decision: &Decision<'_>,
        started: Option<Started<'_>>,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let mut writes = Vec::new();
        for statement in decision.statements() {
            writes.push(send(self.run(statement)).await);
        }
        progress.is_committing = true;
        let commit = send(self.connection.client.batch_execute("COMMIT")).await;
        // After the first error the server refuses the rest of the transaction, and its end undoes it.
        begun(started).await?;
        for write in writes {
            write.answer().await?;
        }
        commit.answer().await?;
        Ok(())
    }

    async fn run(&self, statement: Statement<'_>) -> Answer<u64> {
        let Statement { kind, space, rows } = statement;
        let heads: Vec<&[u8]> = rows.iter().map(|(columns, _)| columns.head).collect();
        let values: Vec<&Stored> = rows.iter().filter_map(|(_, stored)| *stored).collect();
        match kind {
            Kind::Put => self.connection.execute(kind, space, &[&heads, &values]).await,
            Kind::PutLong => {
                let rests: Vec<&[u8]> = rows.iter().map(|(columns, _)| columns.rest()).collect();
                let tails: Vec<Option<&[u8]>> = rows.iter().map(|(columns, _)| columns.tail).collect();
                self.connection.execute(kind, space, &[&heads, &rests, &tails, &values]).await
            }
            Kind::DeleteLong => {
                let rest = rows[0].0.rest();
                self.connection.execute(kind, space, &[&heads[0], &rest]).await
            }
            _ => self.connection.execute(kind, space, &[&heads]).await,
        }
    }

    async fn advance_statement(&self) -> Answer<&tokio_postgres::Statement> {
        if let Some(statement) = self.advance.get() {
            return Ok(statement);
        }
        let statement = self.connection.client.prepare(&advance(&self.connection.schema)).await?;
        Ok(self.advance.get_or_init(|| statement))
    }
}

/// The beginning of a transaction, and the step of the lease.
type Started<'a> = (Sent<'a, Answer<()>>, Sent<'a, Answer<u64>>);

async fn begun(started: Option<Started<'_>>) -> Answer<()> {
    if let Some((begin, advanced)) = started {
        begin.answer().await?;
        advanced.answer().await?;
    }
    Ok(())
}
