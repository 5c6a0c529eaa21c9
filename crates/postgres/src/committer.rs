//! The task that writes: it groups the batches that wait, applies each group as one transaction, and gives signs of life.
//!
//! There is one for an engine, so that groups are applied one after another, and the number of a commit grows with the
//! moment at which it takes effect. When the connection breaks, the lease's row tells whether the group was applied. Its
//! lock makes sure that the transaction has ended by then.
//! Invariant: `lease` is what the row holds, unless the outcome of a group is being found out or the engine is poisoned.

use crate::apply::{Failure, Progress, Writer};
use crate::connection::Connection;
use crate::dialect::Role;
use crate::error::{Cause, cause, engine_error, io_error};
use crate::group::Commit;
use crate::ingest::Merge;
use crate::lease::{self, Lease};
use crate::server::Server;
use diwan_kv::{CommitId, Error, Result};
use parking_lot::Mutex;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

/// About how many bytes a group has at most. A larger batch is a group of its own.
const GROUP_BYTES: usize = 4 << 20;

/// The most batches of a group.
const GROUP_BATCHES: usize = 1000;

/// A transaction takes less, unless the server hangs.
const LONGEST_GROUP: Duration = Duration::from_secs(120);

/// How long closing waits for the server.
const LONGEST_RELEASE: Duration = Duration::from_secs(5);

const COMMITTING: &str = "committing to PostgreSQL";

/// What the committer does, in this order.
pub(crate) enum Job {
    /// Applies a batch.
    Commit(Commit),
    /// Moves ingested pairs to their table.
    Merge(Box<Merge>),
    /// Frees the lease and ends.
    Close(SyncSender<()>),
}

/// What the engine's threads and its committer share.
#[derive(Default)]
pub(crate) struct Shared {
    refusal: Mutex<Option<Error>>,
    durable: AtomicU64,
}

impl Shared {
    /// An error if nothing is written any more.
    pub fn check(&self) -> Result<()> {
        self.refusal.lock().clone().map_or(Ok(()), Err)
    }

    /// The last commit.
    pub fn durable(&self) -> CommitId {
        CommitId(self.durable.load(Ordering::Acquire))
    }

    fn refuse(&self, error: Error) {
        *self.refusal.lock() = Some(error);
    }
}

/// The committer's state.
pub(crate) struct Committer {
    server: Arc<Server>,
    shared: Arc<Shared>,
    jobs: UnboundedReceiver<Job>,
    writer: Option<Writer>,
    lease: Lease,
    patience: Duration,
    renewal: Duration,
    renewed: Instant,
}

/// What became of a group whose connection broke.
enum Outcome {
    Applied,
    NotApplied,
}

impl Committer {
    pub fn new(
        server: Arc<Server>,
        shared: Arc<Shared>,
        jobs: UnboundedReceiver<Job>,
        connection: Connection,
        lease: Lease,
        options: &crate::Options,
    ) -> Committer {
        Committer {
            server,
            shared,
            jobs,
            writer: Some(Writer::new(connection)),
            lease,
            patience: options.patience,
            renewal: options.lease / 5,
            renewed: Instant::now(),
        }
    }

    /// Works until the engine is closed.
    pub async fn run(mut self) {
        let mut held = None;
        loop {
            let job = match held.take() {
                Some(job) => job,
                None => {
                    let wait = self.renewal.saturating_sub(self.renewed.elapsed());
                    match timeout(wait, self.jobs.recv()).await {
                        Ok(Some(job)) => job,
                        Ok(None) => break,
                        Err(_) => {
                            self.renew().await;
                            continue;
                        }
                    }
                }
            };
            match job {
                Job::Commit(first) => {
                    let group;
                    (group, held) = self.gather(first);
                    self.commit(group).await;
                }
                Job::Merge(merge) => self.merge(*merge).await,
                Job::Close(reply) => {
                    self.close().await;
                    let _ = reply.send(());
                    break;
                }
            }
        }
    }

    /// The batches that wait together with `first`, and a job that must come after them.
    fn gather(&mut self, first: Commit) -> (Vec<Commit>, Option<Job>) {
        let mut bytes = first.bytes;
        let mut group = vec![first];
        while group.len() < GROUP_BATCHES && bytes < GROUP_BYTES {
            match self.jobs.try_recv() {
                Ok(Job::Commit(next)) if bytes + next.bytes <= GROUP_BYTES => {
                    bytes += next.bytes;
                    group.push(next);
                }
                Ok(other) => return (group, Some(other)),
                Err(_) => break,
            }
        }
        (group, None)
    }

    async fn commit(&mut self, group: Vec<Commit>) {
        let outcome = match self.shared.check() {
            Ok(()) => self.apply(&group).await,
            Err(refusal) => Err(refusal),
        };
        match outcome {
            Err(error) => answer(group, |_| Err(error.clone())),
            Ok(failed) => {
                let before = self.shared.durable().0;
                let mut id = before;
                let ids: Vec<_> = failed
                    .iter()
                    .map(|failed| {
                        id += u64::from(failed.is_none());
                        failed.map_or(Ok(CommitId(id)), |at| Err(Error::Conflict(at)))
                    })
                    .collect();
                self.shared.durable.store(id, Ordering::Release);
                answer(group, |at| ids[at].clone());
            }
        }
    }

    /// Applies a group, again and again while the server is away. Returns the failed condition of each batch.
    async fn apply(&mut self, group: &[Commit]) -> Result<Vec<Option<usize>>> {
        let deadline =
            group.iter().map(|commit| commit.since).min().unwrap_or_else(Instant::now) + self.patience;
        loop {
            let writer = self.connected(deadline).await?;
            let mut progress = Progress::default();
            let applying = writer.apply(self.lease, group, &mut progress);
            let Ok(outcome) = timeout(LONGEST_GROUP, applying).await else {
                // The connection is given up, with what it may still have under way.
                drop(writer);
                if let Outcome::Applied =
                    self.settle(progress.is_committing, Instant::now() + self.patience).await?
                {
                    return Ok(progress.failed);
                }
                return Err(io_error(COMMITTING, ErrorKind::TimedOut, "the server does not answer".into()));
            };
            let failure = match outcome {
                Ok(written) => {
                    self.writer = Some(writer);
                    self.lease.group += i64::from(written);
                    self.renewed = Instant::now();
                    return Ok(progress.failed);
                }
                Err(failure) => failure,
            };
            match failure {
                Failure::Stored(error) => {
                    // The connection is dropped, which undoes the transaction.
                    return Err(error);
                }
                Failure::Server(error) if lease::is_fenced(&error) => {
                    return Err(self.poison_fenced(Some(writer)).await);
                }
                Failure::Server(error) => match cause(&error) {
                    Cause::Lost => {
                        tracing::warn!(
                            "a commit lost its connection to PostgreSQL: {}",
                            crate::error::text(&error)
                        );
                        if let Outcome::Applied = self.settle(progress.is_committing, deadline).await? {
                            return Ok(progress.failed);
                        }
                        if Instant::now() >= deadline {
                            return Err(engine_error(COMMITTING, &error));
                        }
                    }
                    what => {
                        // Another connection may reach a server that accepts writes.
                        if what != Cause::ReadOnly
                            && writer.connection.client.batch_execute("ROLLBACK").await.is_ok()
                        {
                            self.writer = Some(writer);
                        }
                        if what != Cause::Collision || Instant::now() >= deadline {
                            return Err(engine_error(COMMITTING, &error));
                        }
                    }
                },
            }
        }
    }

    /// Takes the connection, or makes another until the deadline.
    async fn connected(&mut self, deadline: Instant) -> Result<Writer> {
        if let Some(writer) = self.writer.take().filter(|writer| !writer.connection.client.is_closed()) {
            return Ok(writer);
        }
        let made = self.server.connect_until(Role::Writer, deadline).await;
        made.map(Writer::new).map_err(|error| engine_error(COMMITTING, &error))
    }

    /// Finds out what became of a group whose connection broke: its number is in the lease's row, or is passed over there.
    async fn settle(&mut self, is_committing: bool, deadline: Instant) -> Result<Outcome> {
        let passed_over = Lease { group: self.lease.group + 2, ..self.lease };
        loop {
            let found = match self.connected(deadline).await {
                Ok(writer) => self.outcome(&writer).await.map(|lease| (lease, writer)),
                Err(error) => Err(error),
            };
            let applied = Lease { group: self.lease.group + 1, ..self.lease };
            match found {
                Ok((lease, writer)) if lease == passed_over || (lease == applied && is_committing) => {
                    self.lease = lease;
                    self.writer = Some(writer);
                    return Ok(if lease == applied { Outcome::Applied } else { Outcome::NotApplied });
                }
                Ok((_, writer)) => return Err(self.poison_fenced(Some(writer)).await),
                Err(_) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) if is_committing => {
                    let text = format!(
                        "whether a commit was applied is not known, because PostgreSQL is away ({error})"
                    );
                    return Err(self.poison(text));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What the lease's row has, after the group that may have been applied is ruled out if it was not.
    async fn outcome(&self, writer: &Writer) -> Result<Lease> {
        let Connection { client, schema, .. } = &writer.connection;
        let found = async {
            if lease::rule_out(client, schema, self.lease).await? {
                return Ok(Lease { group: self.lease.group + 2, ..self.lease });
            }
            lease::look(client, schema, self.patience).await.map(|seen| seen.lease)
        };
        found.await.map_err(|error| engine_error(COMMITTING, &error))
    }

    fn poison(&mut self, text: String) -> Error {
        tracing::error!("the store refuses writes from now on: {text}");
        let error = Error::Poisoned(text.into());
        self.shared.refuse(error.clone());
        error
    }

    /// The lease's row is not what it was left as.
    async fn poison_fenced(&mut self, writer: Option<Writer>) -> Error {
        let mut text = String::from("another process has taken the store over");
        if let Some(writer) = writer {
            let client = &writer.connection.client;
            // It may be within a transaction that has failed.
            let _ = client.batch_execute("ROLLBACK").await;
            if let Ok(seen) = lease::look(client, &writer.connection.schema, self.patience).await {
                text = if seen.lease.holder == self.lease.holder {
                    format!(
                        "PostgreSQL has commit group {} where {} was expected: it was restored, or a copy that \
                         lacks commits has become the primary",
                        seen.lease.group, self.lease.group
                    )
                } else {
                    format!("another process has taken the store over: {}", seen.holder())
                };
            }
            self.writer = Some(writer);
        }
        self.poison(text)
    }

    /// Gives a sign of life.
    async fn renew(&mut self) {
        self.renewed = Instant::now();
        if self.shared.check().is_err() {
            return;
        }
        let Ok(writer) = self.connected(Instant::now() + self.renewal).await else { return };
        let renewing = lease::renew(&writer.connection.client, &writer.connection.schema, self.lease);
        match timeout(LONGEST_GROUP, renewing).await {
            Ok(Ok(true)) => self.writer = Some(writer),
            Ok(Ok(false)) => {
                self.poison_fenced(Some(writer)).await;
            }
            Ok(Err(error)) => {
                tracing::warn!("cannot renew the lease in PostgreSQL: {}", crate::error::text(&error));
            }
            Err(_) => tracing::warn!("cannot renew the lease in PostgreSQL: no answer"),
        }
    }

    async fn merge(&mut self, merge: Merge) {
        if let Err(refusal) = self.shared.check() {
            return merge.answer(Err(refusal));
        }
        let mut is_committing = false;
        let outcome = match merge.apply(self.lease, &mut is_committing).await {
            Ok(()) => {
                self.lease.group += 1;
                self.renewed = Instant::now();
                Ok(())
            }
            Err(error) if lease::is_fenced(&error) => {
                let writer = self.writer.take();
                Err(self.poison_fenced(writer).await)
            }
            Err(error) if is_committing && cause(&error) == Cause::Lost => {
                let deadline = Instant::now() + self.patience;
                match self.settle(true, deadline).await {
                    Ok(Outcome::Applied) => Ok(()),
                    Ok(Outcome::NotApplied) => Err(engine_error(crate::ingest::INGESTING, &error)),
                    Err(poisoned) => Err(poisoned),
                }
            }
            Err(error) => Err(engine_error(crate::ingest::INGESTING, &error)),
        };
        merge.answer(outcome);
    }

    async fn close(&mut self) {
        let release = async {
            if let Ok(writer) = self.connected(Instant::now()).await {
                let schema = writer.connection.schema.clone();
                if let Err(error) = lease::release(&writer.connection.client, &schema, self.lease).await {
                    tracing::warn!("cannot free the lease in PostgreSQL: {}", crate::error::text(&error));
                }
            }
        };
        // Without an answer the lease expires.
        let _ = timeout(LONGEST_RELEASE, release).await;
        self.shared.refuse(Error::Closed);
    }
}

fn answer(group: Vec<Commit>, outcome: impl Fn(usize) -> Result<CommitId>) {
    for (at, commit) in group.into_iter().enumerate() {
        // The caller waits for it.
        let _ = commit.reply.send(outcome(at));
    }
}
