//! The task that writes: it groups the batches that wait, and applies each group as one transaction.
//!
//! There is one for an engine, so that groups are applied one after another, and the number of a commit grows with the
//! moment at which it takes effect. When the connection breaks, [`settle`](crate::settle) finds out what became of the group.
//!
//! When another process has committed meanwhile, the group is refused as stale. For writes that other processes are kept out
//! for ([`Peers::keep_out`]), the committer takes the lock of the [head](crate::head) before they are evaluated, and keeps it until they
//! are applied. Writes that begin within a [`BURST`] share the lock. Then the other processes have their turn.

use crate::apply::{Failure, Progress, Step, Writer};
use crate::connection::Connection;
use crate::error::{Cause, cause, engine_error, io_error, text};
use crate::following::Following;
use crate::group::Commit;
use crate::ingest::{INGESTING, Merge};
use crate::journal::Trimming;
use crate::lease;
use crate::server::Server;
use crate::session::Role;
use crate::settle::{Outcome, settle};
use diwan_kv::{CommitId, Error, Peers, Result};
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

/// For how long writes are let in that want other processes kept out, once these are.
const BURST: Duration = Duration::from_millis(10);

/// How long other processes are kept out at most.
const LONGEST_LOCK: Duration = Duration::from_secs(5);

/// How often the committer looks whether writes are still evaluated.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How long a group waits for writes that are evaluated.
const GATHERING: Duration = Duration::from_millis(1);

/// How long closing waits for the server.
const FAREWELL: Duration = Duration::from_secs(1);

pub(crate) const COMMITTING: &str = "committing to PostgreSQL";

/// What the committer does, in this order.
pub(crate) enum Job {
    /// Applies a batch.
    Commit(Commit),
    /// Keeps other processes out.
    Lock(SyncSender<Result<()>>),
    /// Takes the lease.
    Lease,
    /// Moves ingested pairs to their table.
    Merge(Box<Merge>),
    /// Ends.
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
}

/// The committer's state.
pub(crate) struct Committer {
    server: Arc<Server>,
    shared: Arc<Shared>,
    following: Arc<Following>,
    jobs: UnboundedReceiver<Job>,
    writer: Option<Writer>,
    /// Since when the writer's session has the head's lock and an open transaction, for writes that are evaluated.
    locked: Option<Instant>,
    /// The writes that wait for the next lock.
    waiting: Vec<SyncSender<Result<()>>>,
    patience: Duration,
    trimming: Trimming,
}

impl Committer {
    pub fn new(
        server: Arc<Server>,
        shared: Arc<Shared>,
        following: Arc<Following>,
        jobs: UnboundedReceiver<Job>,
        connection: Connection,
        patience: Duration,
    ) -> Committer {
        Committer {
            server,
            shared,
            following,
            jobs,
            writer: Some(Writer::new(connection)),
            locked: None,
            waiting: Vec::new(),
            patience,
            trimming: Trimming::new(),
        }
    }

    /// Works until the engine is closed.
    pub async fn run(mut self) {
        let mut next = None;
        loop {
            if self.locked.is_none() && !self.waiting.is_empty() {
                self.admit().await;
            }
            let job = match next.take() {
                Some(job) => job,
                None if self.locked.is_some() => match timeout(LOOK_EVERY, self.jobs.recv()).await {
                    Ok(Some(job)) => job,
                    Ok(None) => break,
                    Err(_) => {
                        if !self.is_lock_wanted() {
                            self.unlock().await;
                        }
                        continue;
                    }
                },
                None => match self.jobs.recv().await {
                    Some(job) => job,
                    None => break,
                },
            };
            match job {
                Job::Commit(first) => {
                    let group;
                    (group, next) = self.gather(first).await;
                    self.commit(group, matches!(next, Some(Job::Commit(_)))).await;
                }
                Job::Lock(reply) => self.let_in(reply),
                Job::Lease => self.take_lease().await,
                Job::Merge(merge) => {
                    self.unlock().await;
                    self.merge(*merge).await;
                }
                Job::Close(reply) => {
                    self.give_lease_back().await;
                    *self.shared.refusal.lock() = Some(Error::Closed);
                    let _ = reply.send(());
                    break;
                }
            }
        }
    }

    /// The batches that wait together with `first`, and a job that must come after them.
    async fn gather(&mut self, first: Commit) -> (Vec<Commit>, Option<Job>) {
        let mut bytes = first.bytes;
        let mut group = vec![first];
        let until = Instant::now() + GATHERING;
        while group.len() < GROUP_BATCHES && bytes < GROUP_BYTES {
            let job = match self.jobs.try_recv() {
                Ok(job) => job,
                Err(_) if self.locked.is_some() && self.following.turns().awaited() > 0 => {
                    let left = until.saturating_duration_since(Instant::now());
                    match timeout(left, self.jobs.recv()).await {
                        Ok(Some(job)) => job,
                        _ => break,
                    }
                }
                Err(_) => break,
            };
            match job {
                Job::Commit(next) if bytes + next.bytes <= GROUP_BYTES => {
                    bytes += next.bytes;
                    group.push(next);
                }
                Job::Lock(reply) => self.let_in(reply),
                other => return (group, Some(other)),
            }
        }
        (group, None)
    }

    /// Lets a write be evaluated if other processes have been kept out for a short time only. Otherwise it waits.
    fn let_in(&mut self, reply: SyncSender<Result<()>>) {
        if self.locked.is_some_and(|since| since.elapsed() < BURST) {
            self.following.turns().await_write();
            // Its caller waits.
            let _ = reply.send(Ok(()));
        } else {
            self.waiting.push(reply);
        }
    }

    /// Keeps other processes out, and lets in all writes that wait.
    async fn admit(&mut self) {
        let outcome = self.lock().await;
        if let Err(error) = &outcome {
            tracing::debug!(%error, "cannot keep other processes out");
        }
        for reply in self.waiting.drain(..) {
            if outcome.is_ok() {
                self.following.turns().await_write();
            }
            let _ = reply.send(outcome.clone());
        }
    }

    /// Applies a group and answers its batches. `has_more` says that other batches wait.
    async fn commit(&mut self, group: Vec<Commit>, has_more: bool) {
        if self.locked.is_none() && self.following.is_contended() {
            self.admit().await;
        }
        let is_refused = |commit: &Commit| self.following.is_refused(commit.generation);
        let (stale, group): (Vec<Commit>, Vec<Commit>) = group.into_iter().partition(is_refused);
        if !stale.is_empty() {
            self.following.fail(stale.iter().flat_map(Commit::keys));
            answer(stale, |_| Err(Error::Stale));
        }
        if group.is_empty() {
            return;
        }
        let outcome = match self.shared.check() {
            Ok(()) => self.apply(&group, has_more).await,
            Err(refusal) => Err(refusal),
        };
        match outcome {
            Err(error) => {
                self.following.fail(group.iter().flat_map(Commit::keys));
                answer(group, |_| Err(error.clone()));
            }
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
                self.trim().await;
            }
        }
    }

    /// Applies a group, again and again while the server is away. Returns the failed condition of each batch.
    async fn apply(&mut self, group: &[Commit], has_more: bool) -> Result<Vec<Option<usize>>> {
        let deadline =
            group.iter().map(|commit| commit.since).min().unwrap_or_else(Instant::now) + self.patience;
        loop {
            let writer = self.connected(deadline).await?;
            let from = self.following.known();
            let locked = self.locked.take();
            let is_wanted = has_more || self.following.turns().awaited() > 0;
            let step = Step {
                from,
                to: from.next(),
                class: self.following.class(),
                own: self.following.process(),
                is_locked: locked.is_some(),
                keeps_lock: is_wanted && locked.is_some_and(|since| since.elapsed() < LONGEST_LOCK),
                is_told: self.following.has_others(),
            };
            let mut progress = Progress::default();
            let applying = writer.apply(step, group, &mut progress);
            let Ok(outcome) = timeout(LONGEST_GROUP, applying).await else {
                // The connection is given up, with what it may still have under way.
                drop(writer);
                let until = Instant::now() + self.patience;
                if let Outcome::Applied = self.settle(step, progress.is_committing, until).await? {
                    return Ok(progress.failed);
                }
                return Err(io_error(COMMITTING, ErrorKind::TimedOut, "the server does not answer".into()));
            };
            let failure = match outcome {
                Ok(written) => {
                    self.writer = Some(writer);
                    self.locked = locked.filter(|_| step.keeps_lock);
                    if written {
                        self.following.advance(step.from, step.to);
                    }
                    return Ok(progress.failed);
                }
                Err(failure) => failure,
            };
            match failure {
                // The connection is dropped, which undoes the transaction.
                Failure::Stored(error) => return Err(error),
                Failure::Stale => {
                    self.following.refuse();
                    self.roll_back(writer, step).await;
                    return Err(Error::Stale);
                }
                Failure::Server(error) => match cause(&error) {
                    Cause::Lost => {
                        tracing::warn!("a commit lost its connection to PostgreSQL: {}", text(&error));
                        if let Outcome::Applied = self.settle(step, progress.is_committing, deadline).await? {
                            return Ok(progress.failed);
                        }
                        if Instant::now() >= deadline {
                            return Err(engine_error(COMMITTING, &error));
                        }
                    }
                    // The group may have been applied, if it failed at the statement after its end.
                    Cause::Other if progress.is_committing => {
                        drop(writer);
                        return match self.settle(step, true, deadline).await? {
                            Outcome::Applied => Ok(progress.failed),
                            _ => Err(engine_error(COMMITTING, &error)),
                        };
                    }
                    what => {
                        // Another connection may reach a server that accepts writes.
                        if what != Cause::ReadOnly {
                            self.roll_back(writer, step).await;
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
        self.locked = None;
        let made = self.server.connect_until(Role::Writer, deadline).await;
        made.map(Writer::new).map_err(|error| engine_error(COMMITTING, &error))
    }

    /// Takes the head's lock, and learns what other processes have committed. Has no effect if it has it.
    async fn lock(&mut self) -> Result<()> {
        self.shared.check()?;
        let deadline = Instant::now() + self.patience;
        while self.locked.is_none() {
            let writer = self.connected(deadline).await?;
            // After an error the connection is dropped, and with it the lock.
            match writer.lock(&self.following).await {
                Ok(learned) => {
                    learned?;
                    self.writer = Some(writer);
                    self.locked = Some(Instant::now());
                }
                Err(error) if cause(&error) != Cause::Lost || Instant::now() >= deadline => {
                    return Err(engine_error(COMMITTING, &error));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Takes the lease, if no process has it. After an error the session that listens looks up the holder again.
    async fn take_lease(&mut self) {
        let attempt = self.following.lease().attempt();
        if self.lock().await.is_ok()
            && let Some(writer) = self.writer.take()
        {
            self.locked = None;
            if let Ok(is_taken) = writer.take_lease(self.following.class(), self.following.process()).await {
                self.writer = Some(writer);
                if is_taken {
                    self.following.lease().begin(&attempt);
                }
            }
        }
    }

    /// Spares the next process the wait for a lease that no process uses.
    async fn give_lease_back(&mut self) {
        if self.following.lease().is_held()
            && let Some(writer) = &self.writer
        {
            self.following.lease().end();
            let Connection { client, schema, .. } = &writer.connection;
            let statement = lease::give_back(schema, self.following.process());
            if let Ok(Err(error)) = timeout(FAREWELL, client.batch_execute(&statement)).await {
                tracing::debug!("cannot give the lease back: {}", text(&error));
            }
        }
    }

    fn is_lock_wanted(&self) -> bool {
        let is_old = self.locked.is_some_and(|since| since.elapsed() > LONGEST_LOCK);
        !is_old && self.following.turns().awaited() > 0
    }

    /// Gives the head's lock back.
    async fn unlock(&mut self) {
        if self.locked.take().is_some()
            && let Some(writer) = self.writer.take()
            && writer.unlock(self.following.class()).await.is_ok()
        {
            self.writer = Some(writer);
        }
    }

    /// Undoes a group that has failed. If that fails, too, the connection is dropped, and with it the lock.
    async fn roll_back(&mut self, writer: Writer, step: Step) {
        if writer.roll_back(step).await.is_ok() {
            self.writer = Some(writer);
        }
    }

    /// Finds out what became of a group whose connection broke.
    async fn settle(&mut self, step: Step, is_committing: bool, deadline: Instant) -> Result<Outcome> {
        match settle(&self.server, step, deadline).await {
            Ok(outcome) => {
                match outcome {
                    Outcome::Applied => self.following.advance(step.from, step.to),
                    Outcome::RuledOut(empty) => self.following.advance(step.from, empty),
                    Outcome::Passed => {}
                }
                Ok(outcome)
            }
            Err(error) => {
                // It may be applied after all, so the state in memory is not certain any more.
                self.following.doubt();
                if !is_committing || error.is_read_only() {
                    return Err(error);
                }
                let text = format!("whether a commit was applied is not known ({error})");
                Err(io_error(COMMITTING, ErrorKind::ConnectionAborted, text))
            }
        }
    }

    async fn merge(&mut self, merge: Merge) {
        if let Err(refusal) = self.shared.check() {
            return merge.answer(Err(refusal));
        }
        // No other process has the lease then. It takes it in between only if it does not see this one.
        let ready = self.lock().await;
        self.unlock().await;
        if let Err(error) = ready {
            return merge.answer(Err(error));
        }
        let (class, own) = (self.following.class(), self.following.process());
        let mut step = None;
        let applied = merge.apply(class, own, &mut step).await;
        let outcome = match (applied, step) {
            (Ok(()), Some((from, to))) => {
                self.following.advance(from, to);
                Ok(())
            }
            (Ok(()), None) => Ok(()),
            (Err(error), Some((from, to))) if cause(&error) == Cause::Lost => {
                let step = Step { from, to, class, own, is_locked: false, keeps_lock: false, is_told: true };
                match self.settle(step, true, Instant::now() + self.patience).await {
                    Ok(Outcome::Applied) => Ok(()),
                    Ok(_) => Err(engine_error(INGESTING, &error)),
                    Err(unknown) => Err(unknown),
                }
            }
            (Err(error), _) => Err(engine_error(INGESTING, &error)),
        };
        merge.answer(outcome);
    }

    async fn trim(&mut self) {
        let number = self.following.known().number;
        if self.locked.is_none()
            && let Some(writer) = &self.writer
        {
            let Connection { client, schema, .. } = &writer.connection;
            if let Err(error) = self.trimming.after(client, schema, number).await {
                tracing::warn!("cannot trim the journal in PostgreSQL: {}", text(&error));
            }
        }
    }
}

fn answer(group: Vec<Commit>, outcome: impl Fn(usize) -> Result<CommitId>) {
    for (at, commit) in group.into_iter().enumerate() {
        // The caller waits for it.
        let _ = commit.reply.send(outcome(at));
    }
}
