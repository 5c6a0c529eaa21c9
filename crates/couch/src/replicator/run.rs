//! One run of a replication: a thread that reads changes, some that copy, and the one that notes how far they came.
//!
//! Changes wait in a bounded queue; each copying thread takes as many as there are, up to a batch. Batches end in any
//! order, and what is noted is always the end of the first unbroken row of finished ones. A second copying thread is
//! started only when the first cannot keep up, so that an idle replication holds three threads.

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

/// How often a request is tried again while the ends are opened: a client waits for the outcome.
const OPENING_RETRIES: u32 = 2;
/// After how many intervals of checkpoints without progress it is asked whether the ends are still the same databases.
const IDLE_INTERVALS: u32 = 12;
/// How long the last checkpoint of a stopped run may wait for a peer.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// Opens a database of the run: which end, how patient, and until when.
pub type Open<'a> = &'a (dyn Fn(End, Settings) -> Result<Database, Failure> + Sync);

/// One end of a replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where is read.
    Source,
    /// Where is written.
    Target,
}

/// How patient a database of a run is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long the peer may be silent.
    pub silence: Duration,
    /// How often a request is tried again.
    pub retries: u32,
    /// What ends every wait.
    pub stop: Stop,
}

/// What a run needs to know.
pub struct Task<'a> {
    /// What is replicated.
    pub spec: &'a Spec,
    /// The id of the checkpoints, but for what the source's filter adds to it.
    pub id: &'a str,
    /// Where is counted.
    pub progress: Arc<Progress>,
    /// The end of the job.
    pub stop: Stop,
    /// Called once both ends are open and the changes are about to be read.
    pub started: &'a (dyn Fn() + Sync),
}

/// Runs a replication to its end: the answer to `_replicate`.
pub fn run(task: &Task<'_>, open: Open<'_>) -> Result<Map<String, Value>, Failure> {
    let Task { spec, progress, stop, .. } = task;
    let settings = |retries, stop: &Stop| Settings { silence: spec.silence, retries, stop: stop.clone() };
    let opening = settings(spec.retries.min(OPENING_RETRIES), stop);
    let source = open(End::Source, opening.clone())?;
    let target = open(End::Target, opening)?;
    let source_info = source.info()?;
    // A function that was edited lets other documents pass: what was noted of the one before is not true of it.
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
        result = flow.note(&source, &target, &mut checkpoints, progress);
        if let Err(failure) = &result {
            flow.fail(failure.clone());
        }
        working.stop();
        // Ends the reader too, should it still wait for the source.
        if result.is_err() {
            stop.stop();
        }
    });
    let through = flow.queue.into_inner().through;
    let noted = match &result {
        Ok(()) => checkpoints.save([&source, &target], &through, progress),
        // What was done until now need not be looked at again.
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

/// What the threads of a run share.
struct Flow<'a> {
    spec: &'a Spec,
    transfer: Transfer,
    queue: Mutex<Queue>,
    /// There is something to copy, or will never be.
    filled: Condvar,
    /// There is room for more.
    emptied: Condvar,
    /// All is done, or the run has failed.
    over: Condvar,
}

#[derive(Default)]
struct Queue {
    rows: VecDeque<Row>,
    /// The source has no more; its last sequence.
    ended: Option<Value>,
    failure: Option<Failure>,
    /// The batches that are being copied, and those finished behind one that is not.
    batches: BTreeMap<u64, Batch>,
    next: u64,
    /// All up to here is done.
    through: Value,
    idle: usize,
    workers: usize,
}

struct Batch {
    last: Value,
    done: bool,
}

impl Queue {
    /// Notes the end of a batch, and of the row of finished ones.
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

/// Ends the run when the thread that holds it panics, so that no other waits for it for ever.
struct Fuse<'a, 'b>(&'a Flow<'b>);

impl Drop for Fuse<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(Failure::passing("internal_server_error", "a thread of the replication met a fault"));
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

    /// Reads the changes into the queue.
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

    /// Copies what is in the queue.
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
            // Without another thread the work goes on with those there are.
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

    /// Notes from time to time how far the others came, until they are done.
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
                // With nothing to note, nobody would see that an end was deleted and made anew.
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
    fn only_an_unbroken_row_of_batches_counts() {
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
