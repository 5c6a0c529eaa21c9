//! The engine: its threads, and the contract's operations.

use crate::committer::{Committer, Job, Shared};
use crate::connection::column;
use crate::following::Following;
use crate::group::Commit;
use crate::listener::{follow, listen};
use crate::open::{Opened, open};
use crate::options::{Options, Target};
use crate::pool::Pool;
use crate::server::Server;
use crate::sizes::Sizes;
use crate::snapshot::{PostgresSnapshot, READING};
use crate::value::owned_value_of;
use crate::wait::wait;
use crate::{OpenError, ingest};
use diwan_kv::{
    Batch, BegunCommit, Bytes, CommitId, Commits, DurableCallback, Engine, Error, KeyRange, Peers, Result,
    Snapshot, SortedPairs, Space, Stats, evaluate,
};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

/// An engine over a schema of a PostgreSQL server.
pub struct PostgresEngine {
    pool: Arc<Pool>,
    shared: Arc<Shared>,
    following: Arc<Following>,
    jobs: UnboundedSender<Job>,
    listening: AbortHandle,
    sizes: Arc<Sizes>,
    // Last: the others need it.
    _threads: Threads,
}

/// The runtime. It may be dropped in a thread of another runtime, where it must not wait for its tasks.
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl PostgresEngine {
    /// Opens the store that the URI (`postgres://…`) names, and makes its schema if there is none. Others may have it open.
    pub fn open(uri: &str, options: &Options) -> std::result::Result<PostgresEngine, OpenError> {
        let target = Target::parse(uri, options)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("diwan-postgres")
            .enable_all()
            .build();
        let no_threads =
            |reason: String| OpenError::Server { context: "cannot start threads".into(), reason };
        let runtime = runtime.map_err(|error| no_threads(error.to_string()))?;
        let handle = runtime.handle().clone();
        let threads = Threads(Some(runtime));
        let server = Server::new(target, handle.clone()).map_err(|reason| OpenError::Uri { reason })?;
        let (tell, told) = sync_channel(1);
        let asked = options.clone();
        handle.spawn(async move {
            let _ = tell.send(open(server, &asked).await);
        });
        let opened = told.recv().map_err(|_| no_threads("the task was dropped".into()))?;
        let Opened { server, connection, process, class, head } = opened?;
        let connections = server.target.connections;
        let server = Arc::new(server);
        let shared = Arc::new(Shared::default());
        let pool = Arc::new(Pool::new(server.clone(), connections, options.patience));
        let (jobs, waiting) = unbounded_channel();
        let following = Arc::new(Following::new(pool.clone(), jobs.clone(), process, class, head));
        let committer = Committer::new(
            server.clone(),
            shared.clone(),
            following.clone(),
            waiting,
            connection,
            options.patience,
        );
        handle.spawn(committer.run());
        let (wake, woken) = sync_channel(1);
        let listening = handle.spawn(listen(server, following.clone(), wake)).abort_handle();
        let follower = following.clone();
        std::thread::Builder::new()
            .name("diwan-follow".into())
            .spawn(move || follow(&follower, &woken))
            .map_err(|error| no_threads(error.to_string()))?;
        let sizes = Arc::default();
        Ok(PostgresEngine { pool, shared, following, jobs, listening, sizes, _threads: threads })
    }

    /// Commits what was evaluated in the present turn.
    fn commit_once(&self, batch: Batch) -> Result<CommitId> {
        let replied = self.send(batch)?;
        replied.recv().map_err(|_| self.refusal())?
    }

    /// Why there is no answer.
    fn refusal(&self) -> Error {
        self.shared.check().err().unwrap_or(Error::Closed)
    }

    /// Gives a batch to the committer.
    fn send(&self, batch: Batch) -> Result<Receiver<Result<CommitId>>> {
        let generation = self.following.generation();
        if self.following.is_refused(generation) {
            return Err(Error::Stale);
        }
        let (reply, replied) = sync_channel(1);
        let commit = Commit::new(batch, generation, reply);
        self.jobs.send(Job::Commit(commit)).map_err(|_| self.refusal())?;
        self.following.turns().arrive();
        Ok(replied)
    }
}

impl Engine for PostgresEngine {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(PostgresSnapshot::take(&self.pool, &self.following))
    }

    fn spare_snapshot(&self) -> Option<Box<dyn Snapshot>> {
        Some(Box::new(PostgresSnapshot::take_spare(&self.pool, &self.following)?))
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let row = self.pool.with_shared(READING, |connection| wait(connection.get(space, key)))?;
        row.map(|row| owned_value_of(column(&row, 0)?)).transpose()
    }

    fn commit(&self, batch: Batch) -> Result<CommitId> {
        batch.check_keys()?;
        self.shared.check()?;
        if batch.is_empty() && batch.conditions().is_empty() {
            return Ok(self.shared.durable());
        }
        if self.following.turns().is_inside() {
            return self.commit_once(batch);
        }
        let is_stale = |error: &Error| matches!(error, Error::Stale);
        // A commit that is not part of a turn relies on nothing that other processes could change but its conditions.
        evaluate(self.following.as_ref(), Commits::One, is_stale, || {
            let _turn = self.following.turns().enter();
            self.commit_once(batch.clone())
        })
    }

    fn begin_commit(&self, batch: Batch) -> BegunCommit<'_> {
        if !self.following.turns().is_inside() || batch.is_empty() {
            return BegunCommit::Ended(self.commit(batch));
        }
        let sent = batch.check_keys().and_then(|()| self.shared.check()).and_then(|()| self.send(batch));
        match sent {
            Ok(replied) => {
                BegunCommit::UnderWay(Box::new(move || replied.recv().map_err(|_| self.refusal())?))
            }
            Err(error) => BegunCommit::Ended(Err(error)),
        }
    }

    fn writable(&self) -> Result<()> {
        self.shared.check()
    }

    fn ingest(&self, space: Space, mut pairs: SortedPairs<'_>) -> Result<()> {
        let (first, has_more) = ingest::gather(&mut pairs);
        if !has_more {
            let mut batch = Batch::with_capacity(first.len());
            first.into_iter().for_each(|(key, value)| batch.put(space, key, value));
            return self.commit(batch).map(drop);
        }
        self.shared.check()?;
        let deadline = Instant::now() + self.pool.patience;
        ingest::ingest(&self.pool.server, &self.jobs, space, first, pairs, deadline)
    }

    fn on_durable(&self, _: CommitId, callback: DurableCallback) {
        callback(Ok(()));
    }

    fn sync_here(&self, _: CommitId) -> Option<Result<()>> {
        Some(Ok(()))
    }

    fn wait_durable(&self, _: CommitId) -> Result<()> {
        Ok(())
    }

    fn durable(&self) -> CommitId {
        self.shared.durable()
    }

    fn delete_range(&self, space: Space, range: KeyRange) -> Result<u64> {
        diwan_kv::delete_in_batches(self, space, range)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Stats {
        self.sizes.show(&self.pool.server)
    }

    fn peers(&self) -> Option<&dyn Peers> {
        Some(self.following.as_ref())
    }

    fn close(&self) -> Result<()> {
        self.listening.abort();
        let (reply, replied) = sync_channel(1);
        // Without a committer it has been closed.
        if self.jobs.send(Job::Close(reply)).is_ok() {
            let _ = replied.recv();
        }
        self.pool.close();
        Ok(())
    }
}

impl Drop for PostgresEngine {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
