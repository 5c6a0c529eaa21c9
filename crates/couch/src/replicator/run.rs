//! One run of a replication: a thread that reads changes, threads that copy documents, and the calling thread, which
//! writes checkpoints.
//!
//! Changes wait in a bounded queue; each worker takes up to a batch of them. Batches finish in any order, and a
//! checkpoint covers the changes before the first unfinished batch. Further workers are started only when the first
//! cannot keep up, so an idle replication has three threads.

use super::changes::{self, Row};
use super::checkpoint::Checkpoints;
use super::failure::Failure;
use super::progress::Progress;
use super::protocol::Database;
use super::spec::{Choice, Spec};
use super::stop::Stop;
use super::transfer::Transfer;
use crate::uuids;
use parking_lot::{Condvar, Mutex};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::Scope;
use std::time::{Duration, Instant};

/// How often requests are retried while the databases are opened, because a client may be waiting.
const OPENING_RETRIES: u32 = 2;
/// After how many checkpoint intervals without progress the run checks that the databases are still the same.
const IDLE_INTERVALS: u32 = 12;
/// How long the last checkpoint of a stopped run may wait for a peer.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// Opens one of the databases.
type Open<'a> = &'a (dyn Fn(End, Settings) -> Result<Database, Failure> + Sync);

/// One of the databases of a replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The database to read from.
    Source,
    /// The database to write to.
    Target,
}

/// The limits for accessing a database.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The longest silence of the peer.
    pub(crate) silence: Duration,
    /// How often a request is retried.
    pub(crate) retries: u32,
    /// Stops every wait.
    pub(crate) stop: Stop,
}

/// The parameters of a run.
pub(super) struct Task<'a> {
    /// What is replicated, and how.
    pub(crate) spec: &'a Spec,
    /// The id of the checkpoints, not including the code of a filter function.
    pub(crate) id: &'a str,
    /// The counters and positions to update.
    pub(crate) progress: Arc<Progress>,
    /// Stops the run.
    pub(crate) stop: Stop,
    /// Called when both databases are open, before changes are read.
    pub(crate) started: &'a (dyn Fn() + Sync),
}

/// Runs a replication to its end and returns the answer to `_replicate`.
pub(super) fn run_replication(task: &Task<'_>, open: Open<'_>) -> Result<Map<String, Value>, Failure> {
    let Task { spec, progress, stop, .. } = task;
    let settings = |retries, stop: &Stop| Settings { silence: spec.silence, retries, stop: stop.clone() };
    let opening = settings(spec.retries.min(OPENING_RETRIES), stop);
    let source = open(End::Source, opening.clone())?;
    let target = open(End::Target, opening)?;
    let source_info = source.info()?;
    // An edited filter function selects other documents, so old checkpoints do not apply.
    let id = match &spec.choice {
        Choice::Filter(name) => source.filter_code(name)?.map(|code| Spec::filtered_id(task.id, &code)),
        _ => None,
    };
    let id = id.as_deref().unwrap_or(task.id);
    if spec.create_target {
        target.create(&spec.create_target_params)?;
    }
    let target_info = target.info()?;
    let by_ids = matches!(spec.choice, Choice::Ids(_));
    let mut checkpoints =
        Checkpoints::load([&source, &target], id, uuids::random(), spec.use_checkpoints, by_ids)?;
    if let Some(since) = &spec.since_seq {
        checkpoints.start_at(since.clone());
    }
    let instance = source_info.get("instance_start_time").cloned();
    checkpoints.set_instances(instance.clone(), target_info.get("instance_start_time").cloned());
    progress.carry(checkpoints.counts());
    let began = progress.counts();
    let start = checkpoints.start.clone();
    let pending = source.pending(&start);
    progress.update(|positions| {
        (positions.source, positions.through) = (start.clone(), start.clone());
        positions.checkpointed = start.clone();
        positions.pending = pending;
    });
    // The workers have their own signal: any failure of the run stops them, not only the end of the job.
    let working = Stop::default();
    let transfer = Transfer::new(
        Arc::new(
            open(End::Source, settings(spec.retries, &working))?.with_exact_integers(target.takes_encoded()),
        ),
        Arc::new(open(End::Target, settings(spec.retries, &working))?),
        spec,
        target.takes_encoded(),
        progress.clone(),
    );
    let feed = open(End::Source, settings(spec.retries, stop))?;
    let flow = Flow {
        spec,
        transfer,
        queue: Mutex::new(Queue { through: start.clone(), workers: 1, ..Queue::default() }),
        filled: Condvar::new(),
        emptied: Condvar::new(),
        over: Condvar::new(),
    };
    (task.started)();
    let mut result = Ok(());
    std::thread::scope(|scope| {
        let started = spawn(scope, "replication reader", || {
            flow.read(&feed, start.clone(), instance.as_ref());
        })
        .and_then(|()| spawn(scope, "replication worker", || flow.work(scope)));
        if let Err(failure) = started {
            flow.fail(failure);
        }
        // This thread writes the checkpoints while the others read and copy.
        result = flow.note(&source, &target, &mut checkpoints, progress);
        if let Err(failure) = &result {
            flow.fail(failure.clone());
        }
        working.stop();
        // Stop the reader too, which may still be waiting for the source.
        if result.is_err() {
            stop.stop();
        }
    });
    let through = flow.queue.into_inner().through;
    let noted = match &result {
        Ok(()) => checkpoints.save([&source, &target], &through, progress),
        // Save a last checkpoint so that the next run does not repeat the work.
        Err(_) => {
            let last =
                Settings { silence: spec.silence.min(LAST_PATIENCE), retries: 0, stop: Stop::default() };
            open(End::Source, last.clone()).and_then(|source| {
                let target = open(End::Target, last)?;
                checkpoints.save([&source, &target], &through, progress)
            })
        }
    };
    progress.update(|positions| positions.checkpointed = checkpoints.committed().clone());
    result.and(noted)?;
    progress.update(|positions| positions.pending = Some(0));
    Ok(checkpoints.result(&through, progress, began))
}

fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() + Send + 'scope,
) -> Result<(), Failure> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, body)
        .map(drop)
        .map_err(|error| Failure::passing("internal_server_error", format!("cannot start a thread: {error}")))
}

/// The state that the threads of a run share.
struct Flow<'a> {
    spec: &'a Spec,
    transfer: Transfer,
    queue: Mutex<Queue>,
    /// Signals that there are changes to copy, or that there will be no more.
    filled: Condvar,
    /// Signals that the queue has room.
    emptied: Condvar,
    /// Signals that the run is complete or has failed.
    over: Condvar,
}

/// The queue of changes and the state of the batches.
#[derive(Default)]
struct Queue {
    rows: VecDeque<Row>,
    /// The last sequence, after the source has reported all changes.
    ended: Option<Value>,
    failure: Option<Failure>,
    /// The batches being copied, and finished ones after an unfinished one.
    batches: BTreeMap<u64, Batch>,
    next: u64,
    /// All changes up to this sequence are copied.
    through: Value,
    idle: usize,
    workers: usize,
}

struct Batch {
    last: Value,
    done: bool,
}

impl Queue {
    /// Marks a batch as finished and advances `through` past the finished batches at the front.
    fn finish(&mut self, number: u64) {
        if let Some(batch) = self.batches.get_mut(&number) {
            batch.done = true;
        }
        while let Some(first) = self.batches.first_entry() {
            if !first.get().done {
                return;
            }
            self.through = first.remove().last;
        }
        if self.rows.is_empty()
            && let Some(last) = &self.ended
        {
            self.through = last.clone();
        }
    }

    fn is_done(&self) -> bool {
        self.ended.is_some() && self.rows.is_empty() && self.batches.is_empty()
    }
}

/// Fails the run when its thread panics, so that other threads do not wait forever.
struct Fuse<'a, 'b>(&'a Flow<'b>);

impl Drop for Fuse<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(Failure::passing("internal_server_error", "a thread of the replication panicked"));
        }
    }
}

impl Flow<'_> {
    fn fail(&self, failure: Failure) {
        let mut queue = self.queue.lock();
        queue.failure.get_or_insert(failure);
        drop(queue);
        for waiting in [&self.filled, &self.emptied, &self.over] {
            waiting.notify_all();
        }
    }

    /// The reader's thread: puts the changes into the queue.
    fn read(&self, feed: &Database, since: Value, instance: Option<&Value>) {
        let _fuse = Fuse(self);
        let room = self.spec.batch * (self.spec.workers + 1);
        let progress = &self.transfer.progress;
        let result = changes::read(feed, self.spec, since, instance, &mut |rows| {
            if let Some(last) = rows.last() {
                progress.update(|positions| {
                    positions.source = last.seq.clone();
                    let count = rows.len() as u64;
                    positions.pending = positions.pending.map(|pending| pending.saturating_sub(count));
                });
            }
            let mut queue = self.queue.lock();
            while queue.rows.len() >= room && queue.failure.is_none() {
                self.emptied.wait(&mut queue);
            }
            if queue.failure.is_some() {
                return false;
            }
            queue.rows.extend(rows);
            drop(queue);
            self.filled.notify_one();
            true
        });
        match result {
            Ok(last) => {
                progress.update(|positions| positions.source = last.clone());
                let mut queue = self.queue.lock();
                queue.ended = Some(last.clone());
                if queue.is_done() {
                    queue.through = last;
                    self.over.notify_all();
                }
                drop(queue);
                self.filled.notify_all();
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// A worker's thread: copies the changes in the queue.
    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let _fuse = Fuse(self);
        loop {
            let mut queue = self.queue.lock();
            while queue.rows.is_empty() && queue.failure.is_none() && queue.ended.is_none() {
                queue.idle += 1;
                self.filled.wait(&mut queue);
                queue.idle -= 1;
            }
            if queue.failure.is_some() || queue.rows.is_empty() {
                return;
            }
            let count = queue.rows.len().min(self.spec.batch);
            let rows: Vec<Row> = queue.rows.drain(..count).collect();
            let number = queue.next;
            queue.next += 1;
            let last = rows.last().map(|row| row.seq.clone()).unwrap_or_default();
            queue.batches.insert(number, Batch { last, done: false });
            // Start another worker only if no existing one is free.
            let is_more = !queue.rows.is_empty();
            let help = is_more && queue.idle == 0 && queue.workers < self.spec.workers;
            if help {
                queue.workers += 1;
            }
            drop(queue);
            self.emptied.notify_one();
            if is_more {
                self.filled.notify_one();
            }
            // If no thread can be started, the existing workers do the work.
            if help && spawn(scope, "replication worker", || self.work(scope)).is_err() {
                self.queue.lock().workers -= 1;
            }
            if let Err(failure) = self.transfer.copy(&rows) {
                return self.fail(failure);
            }
            let mut queue = self.queue.lock();
            queue.finish(number);
            let through = queue.through.clone();
            let is_done = queue.is_done();
            drop(queue);
            self.transfer.progress.update(|positions| positions.through = through);
            if is_done {
                self.over.notify_all();
            }
        }
    }

    /// Writes checkpoints at intervals until all changes are copied.
    fn note(
        &self,
        source: &Database,
        target: &Database,
        checkpoints: &mut Checkpoints,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let mut due = Instant::now() + self.spec.checkpoint_interval;
        let mut idle = 0;
        loop {
            let mut queue = self.queue.lock();
            while queue.failure.is_none() && !queue.is_done() {
                if self.over.wait_until(&mut queue, due).timed_out() {
                    break;
                }
            }
            if let Some(failure) = &queue.failure {
                return Err(failure.clone());
            }
            if queue.is_done() {
                return Ok(());
            }
            let through = queue.through.clone();
            drop(queue);
            if through != *checkpoints.committed() {
                checkpoints.save([source, target], &through, progress)?;
                let pending = source.pending(&through);
                progress.update(|positions| {
                    positions.checkpointed = checkpoints.committed().clone();
                    positions.pending = pending;
                });
                idle = 0;
            } else {
                // Without checkpoints the run would not notice that a database was deleted and created again.
                idle += 1;
                if idle % IDLE_INTERVALS == 0 {
                    checkpoints.check_instances([source, target])?;
                }
            }
            due = Instant::now() + self.spec.checkpoint_interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn through_stops_at_the_first_unfinished_batch() {
        let mut queue = Queue { through: json!(0), ..Queue::default() };
        for number in 0..4 {
            queue.batches.insert(number, Batch { last: json!(number + 1), done: false });
        }
        for (number, through) in [(2, 0), (0, 1), (3, 1), (1, 4)] {
            queue.finish(number);
            assert_eq!(queue.through, json!(through));
        }
        queue.ended = Some(json!(9));
        assert!(queue.is_done());
    }
}
