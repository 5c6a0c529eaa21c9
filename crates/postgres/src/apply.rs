//! Runs a group of batches as one transaction, with its row of the [journal].
//!
//! Without conditions all statements are sent at once. With conditions there are two messages: up to the reading of
//! the conditions' keys, and from the writes to the end.

use crate::connection::Connection;
use crate::error::Answer;
use crate::following::Following;
use crate::group::{self, Commit, Decision, Known, decide, looked_up};
use crate::head::{self, BEGIN_WRITE, Head, is_stale};
use crate::journal::{self, ROWS};
use crate::lease::{self, may_commit};
use crate::locks::{HEAD, KEEP, LOCK, unlock_head};
use crate::statements::{Kind, prepare_joint};
use crate::wait::{Sent, send};
use diwan_kv::{Bytes, Error, Result, Space};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

/// The connection that commits.
pub(crate) struct Writer {
    pub connection: Connection,
    lock: OnceLock<Statement>,
    keep: OnceLock<Statement>,
    last: OnceLock<Statement>,
    /// For each combination of parts that a group had.
    joint: Mutex<HashMap<Vec<(Kind, Space)>, Statement>>,
}

/// How many combinations a connection has prepared at most.
const MOST_JOINT: usize = 200;

/// The step of the head that a group makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The group before.
    pub from: Head,
    /// This group.
    pub to: Head,
    /// The first part of the keys of advisory locks.
    pub class: i32,
    /// The process.
    pub own: i64,
    /// Whether the session has the head's lock already, and an open transaction.
    pub is_locked: bool,
    /// Whether it has both afterwards.
    pub keeps_lock: bool,
    /// Whether other processes are to be told.
    pub is_told: bool,
}

impl Step {
    /// The statements that end the transaction.
    fn end(&self, end: &str) -> String {
        match (self.is_locked, self.keeps_lock) {
            (false, _) => end.to_owned(),
            (true, false) => format!("{end}; {}", unlock_head(self.class)),
            (true, true) => format!("{end}; {BEGIN_WRITE}"),
        }
    }
}

/// Why a group was not applied, or may not have been.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The head is not what the group's process knew.
    Stale,
    /// The server's error, or that of the connection.
    Server(tokio_postgres::Error),
    /// What the tables have is damaged.
    Stored(Error),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        if is_stale(&error) { Failure::Stale } else { Failure::Server(error) }
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
        Writer {
            connection,
            lock: OnceLock::new(),
            keep: OnceLock::new(),
            last: OnceLock::new(),
            joint: Mutex::default(),
        }
    }

    /// Takes the head's lock and begins a transaction, and learns what other processes have committed. Waits for those who have the
    /// lock, and until no other process has the lease. If this process is stopped, the server ends the transaction's session after
    /// a while, and with it the lock.
    pub async fn lock(&self, following: &Following) -> Answer<Result<()>> {
        let Connection { client, schema, .. } = &self.connection;
        loop {
            let (learned, holder) = self.lock_once(following).await?;
            let own = following.process();
            if learned.is_err() || may_commit(own, holder) {
                return Ok(learned);
            }
            self.unlock(following.class()).await?;
            lease::await_return(client, schema, own).await?;
        }
    }

    /// The same, but another process may have the lease. Also gives its holder.
    async fn lock_once(&self, following: &Following) -> Answer<(Result<()>, i64)> {
        let Connection { client, schema, .. } = &self.connection;
        let lock = self.statement(&self.keep, |_| KEEP.to_owned()).await?;
        let class = following.class();
        let key: [&(dyn ToSql + Sync); 2] = [&class, &HEAD];
        let mut started = Some(self.begin(lock, &key).await);
        loop {
            let marked = following.marked();
            let rows = send(self.connection.journal(marked.number - 1, i64::MAX)).await;
            let holder = send(lease::holder(client, schema)).await;
            begun(started.take()).await?;
            let rows = rows.answer().await?;
            let holder = holder.answer().await?;
            let learned = following.mark_locked(marked, &rows)?;
            if learned.is_err() || (rows.len() as i64) < ROWS {
                return Ok((learned, holder));
            }
        }
    }

    /// Takes the lease, if no process has it, and gives the head's lock back. Tells whether this process has the lease.
    pub async fn take_lease(&self, class: i32, own: i64) -> Answer<bool> {
        let Connection { client, schema, .. } = &self.connection;
        let taken = client.execute(&lease::take(schema, own), &[]).await?;
        client.batch_execute(&format!("COMMIT; {}", unlock_head(class))).await?;
        Ok(taken == 1)
    }

    /// Undoes a group that has failed, and gives the head's lock back if the session has it.
    pub async fn roll_back(&self, step: Step) -> Answer<()> {
        let undo = Step { keeps_lock: false, ..step }.end("ROLLBACK");
        self.connection.client.batch_execute(&undo).await
    }

    /// Gives the head's lock back.
    pub async fn unlock(&self, class: i32) -> Answer<()> {
        self.connection.client.batch_execute(&format!("ROLLBACK; {}", unlock_head(class))).await
    }

    /// Sends the beginning of a transaction, and a statement that takes the head's lock.
    async fn begin<'a>(&'a self, lock: &'a Statement, key: &'a [&(dyn ToSql + Sync)]) -> Started<'a> {
        let client = &self.connection.client;
        let begin = send(client.batch_execute(BEGIN_WRITE)).await;
        (begin, send(client.execute(lock, key)).await)
    }

    /// Applies a group; false if nothing was to be written. `progress` says how far it came, also after a failure.
    pub async fn apply(
        &self,
        step: Step,
        commits: &[Commit],
        progress: &mut Progress,
    ) -> std::result::Result<bool, Failure> {
        let client = &self.connection.client;
        let lock = self.statement(&self.lock, |_| LOCK.to_owned()).await?;
        let key: [&(dyn ToSql + Sync); 2] = [&step.class, &HEAD];
        let started = match step.is_locked {
            true => None,
            false => Some(self.begin(lock, &key).await),
        };
        let mut known = Known::new();
        // Conditions are about the state that the group's process knows.
        let has_conditions = commits.iter().any(|commit| commit.has_conditions());
        let last = match has_conditions {
            true => {
                let last = self.statement(&self.last, head::last).await?;
                Some(send(client.query_one(last, &[])).await)
            }
            false => None,
        };
        let mut reads = Vec::new();
        for (space, keys) in looked_up(commits) {
            let read = async move { self.connection.get_many(space, &keys).await };
            reads.push((space, send(read).await));
        }
        let mut started = started;
        if let Some(last) = last {
            begun(started.take()).await?;
            let row = last.answer().await?;
            if (Head { number: row.try_get(0)?, stamp: row.try_get(1)? }) != step.from {
                return Err(Failure::Stale);
            }
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
            client.batch_execute(&step.end("ROLLBACK")).await?;
            return Ok(false);
        }
        self.write(&decision, step, started, progress).await?;
        Ok(true)
    }

    async fn write(
        &self,
        decision: &Decision<'_>,
        step: Step,
        started: Option<Started<'_>>,
        progress: &mut Progress,
    ) -> std::result::Result<(), Failure> {
        // One statement costs the server less than several. What occurs twice is written before.
        let mut joint = BTreeMap::new();
        let mut apart = Vec::new();
        for statement in decision.statements() {
            if let Some(other) = joint.insert((statement.kind, statement.space), statement) {
                self.connection.prepare(other.kind, other.space).await?;
                apart.push(other);
            }
        }
        let parts: Vec<(Kind, Space)> = joint.keys().copied().collect();
        let group = self.joint(parts).await?;
        let mut writes = Vec::with_capacity(apart.len());
        for statement in &apart {
            let group::Statement { kind, space, .. } = *statement;
            let written = async move { self.connection.execute(kind, space, &statement.parameters()).await };
            writes.push(send(written).await);
        }
        let client = &self.connection.client;
        let keys =
            journal::encode(decision.writes.keys().copied(), decision.notes.iter().map(|note| &***note));
        let row: [&(dyn ToSql + Sync); 5] =
            [&step.to.number, &step.from.stamp, &step.to.stamp, &keys, &step.own];
        let parameters: Vec<_> = joint.values().flat_map(group::Statement::parameters).chain(row).collect();
        let written = send(client.execute(&group, &parameters)).await;
        let end = match step.is_told {
            true => &format!("NOTIFY {}; COMMIT", self.connection.schema),
            false => "COMMIT",
        };
        let end = &step.end(end);
        progress.is_committing = true;
        let commit = send(client.batch_execute(end)).await;
        // After the first error the server refuses the rest, also `NOTIFY` before the end.
        begun(started).await?;
        for write in writes {
            write.answer().await?;
        }
        written.answer().await?;
        commit.answer().await?;
        Ok(())
    }

    /// The prepared statement for these parts of a group, and the row of the journal.
    async fn joint(&self, parts: Vec<(Kind, Space)>) -> Answer<Statement> {
        if let Some(statement) = self.joint.lock().get(&parts) {
            return Ok(statement.clone());
        }
        let Connection { client, schema, .. } = &self.connection;
        let statement = prepare_joint(client, schema, &parts).await?;
        let mut joint = self.joint.lock();
        if joint.len() >= MOST_JOINT {
            joint.clear();
        }
        joint.insert(parts, statement.clone());
        Ok(statement)
    }

    async fn statement<'s>(
        &self,
        slot: &'s OnceLock<Statement>,
        sql: impl Fn(&str) -> String,
    ) -> Answer<&'s Statement> {
        if let Some(statement) = slot.get() {
            return Ok(statement);
        }
        let statement = self.connection.client.prepare(&sql(&self.connection.schema)).await?;
        Ok(slot.get_or_init(|| statement))
    }
}

/// The beginning of a transaction, and its lock.
type Started<'a> = (Sent<'a, Answer<()>>, Sent<'a, Answer<u64>>);

async fn begun(started: Option<Started<'_>>) -> Answer<()> {
    if let Some((begin, locked)) = started {
        begin.answer().await?;
        locked.answer().await?;
    }
    Ok(())
}
