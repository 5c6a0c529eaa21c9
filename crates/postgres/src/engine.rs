//! The engine: its threads, and the contract's operations.

use crate::committer::{Committer, Job, Shared};
use crate::connection::column;
use crate::error::{Cause, cause, engine_error};
use crate::group::Commit;
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
    Batch, Bytes, CommitId, DurableCallback, Engine, Error, KeyRange, Result, Snapshot, SortedPairs, Space,
    Stats,
};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// A pause before a read is tried again.
const PAUSE: Duration = Duration::from_millis(10);

/// An engine over a schema of a PostgreSQL server.
pub struct PostgresEngine {
    pool: Arc<Pool>,
    shared: Arc<Shared>,
    jobs: UnboundedSender<Job>,
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
    /// Opens the store that the URI (`postgres://…`) names, and makes its schema if there is none.
    ///
    /// A store that another process has open is refused. After a process that ended without closing it, this waits
    /// until its lease has expired.
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
        let Opened { server, connection, lease } = opened?;
        let connections = server.target.connections;
        let server = Arc::new(server);
        let shared = Arc::new(Shared::default());
        let (jobs, waiting) = unbounded_channel();
        let committer = Committer::new(server.clone(), shared.clone(), waiting, connection, lease, options);
        handle.spawn(committer.run());
        let pool = Arc::new(Pool::new(server, connections, options.patience));
        Ok(PostgresEngine { pool, shared, jobs, sizes: Arc::default(), _threads: threads })
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.pool.patience
    }
}

impl Engine for PostgresEngine {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(PostgresSnapshot::take(&self.pool))
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let deadline = self.deadline();
        loop {
            let connection = self.pool.shared(deadline)?;
            match wait(connection.get(space, key)) {
                Ok(row) => return row.map(|row| owned_value_of(column(&row, 0)?)).transpose(),
                Err(error) if cause(&error) == Cause::Lost && Instant::now() < deadline => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(engine_error(READING, &error)),
            }
        }
    }

    fn commit(&self, batch: Batch) -> Result<CommitId> {
        batch.check_keys()?;
        self.shared.check()?;
        if batch.is_empty() && batch.conditions().is_empty() {
            return Ok(self.shared.durable());
        }
        let (reply, replied) = sync_channel(1);
        let commit = Commit::new(batch, reply);
        let refused = || self.shared.check().err().unwrap_or(Error::Closed);
        self.jobs.send(Job::Commit(commit)).map_err(|_| refused())?;
        replied.recv().map_err(|_| refused())?
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
        ingest::ingest(&self.pool.server, &self.jobs, space, first, pairs, self.deadline())
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

    fn close(&self) -> Result<()> {
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
