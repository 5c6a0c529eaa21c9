//! A job of the scheduler: pending, running, or waiting for a retry.

use super::failure::{Failure, Kind};
use super::owner::Owner;
use super::progress::Progress;
use super::spec::Spec;
use super::stop::Stop;
use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many events are kept.
const EVENTS: usize = 20;
/// The pause after the first failure. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// After a run of this length the count of failures starts again.
const HEALTHY: Duration = Duration::from_secs(120);

/// Identifies a document of a `_replicator` database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DocumentKey {
    /// The database's HTTP name.
    pub(crate) database: String,
    /// The document's id.
    pub(crate) id: String,
}

/// A replication job.
pub(crate) struct Job {
    /// The job's id: the base id and the options that distinguish jobs with the same checkpoints.
    pub(crate) id: String,
    /// The base id, which identifies the checkpoints.
    pub(crate) base: String,
    /// What is replicated, and how.
    pub(crate) spec: Spec,
    /// The document that defines the job; `None` for one from `_replicate`.
    pub(crate) document: Option<DocumentKey>,
    /// With whose rights it works on databases of this server.
    pub(crate) owner: Owner,
    /// When the job was created.
    added: Timestamp,
    /// The counters and positions over all runs.
    pub(crate) progress: Arc<Progress>,
    state: Mutex<JobState>,
    changed: Condvar,
}

struct JobState {
    phase: Phase,
    events: VecDeque<Event>,
    /// Stops the current run.
    stop: Stop,
    errors: u32,
    /// The earliest time of the next run.
    due: Instant,
    began: Option<Instant>,
    updated: Timestamp,
}

/// The phase of a job.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Waiting to run.
    Pending,
    /// Running.
    Running {
        /// Whether source and target have been opened.
        ready: bool,
    },
    /// Failed, with a retry scheduled.
    Crashing(Failure),
    /// Completed, with the answer to `_replicate`.
    Completed(Map<String, Value>),
    /// Failed, without a retry.
    Failed(Failure),
    /// Cancelled.
    Removed,
}

struct Event {
    time: Timestamp,
    kind: &'static str,
    reason: Option<String>,
}

/// What the scheduler does with a job after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Keep it.
    Stays,
    /// Remove it.
    Over,
}

impl Job {
    /// Creates a pending job.
    pub(crate) fn new(base: String, spec: Spec, document: Option<DocumentKey>, owner: Owner) -> Arc<Job> {
        let now = Timestamp::now();
        Arc::new(Job {
            id: base.clone() + &spec.extension(),
            base,
            spec,
            document,
            owner,
            added: now,
            progress: Arc::default(),
            state: Mutex::new(JobState {
                phase: Phase::Pending,
                events: VecDeque::from([Event { time: now, kind: "added", reason: None }]),
                stop: Stop::default(),
                errors: 0,
                due: Instant::now(),
                began: None,
                updated: now,
            }),
            changed: Condvar::new(),
        })
    }

    /// The current phase.
    pub(crate) fn phase(&self) -> Phase {
        self.state.lock().phase.clone()
    }

    /// When the job may start, if it is waiting.
    pub(crate) fn due(&self) -> Option<Instant> {
        let state = self.state.lock();
        matches!(state.phase, Phase::Pending | Phase::Crashing(_)).then_some(state.due)
    }

    /// When the current run began.
    pub(crate) fn running_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        if matches!(state.phase, Phase::Running { .. }) { state.began } else { None }
    }

    /// Begins a run and returns what stops it; `None` if the job is not waiting.
    pub(crate) fn begin(&self) -> Option<Stop> {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Pending | Phase::Crashing(_)) {
            return None;
        }
        state.phase = Phase::Running { ready: false };
        state.stop = Stop::default();
        state.began = Some(Instant::now());
        let stop = state.stop.clone();
        self.note(state, "started", None);
        Some(stop)
    }

    /// Records that source and target have been opened.
    pub(crate) fn ready(&self) {
        let mut state = self.state.lock();
        if let Phase::Running { ready } = &mut state.phase {
            *ready = true;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends a run.
    pub(crate) fn end(&self, result: Result<Map<String, Value>, Failure>) -> After {
        let mut state = self.state.lock();
        let Phase::Running { ready } = state.phase else {
            // The job was cancelled during the run.
            return After::Over;
        };
        match result {
            Ok(answer) => {
                state.phase = Phase::Completed(answer);
                self.note(state, "stopped", None);
                After::Over
            }
            Err(failure) if failure.kind == Kind::Stopped => {
                state.phase = Phase::Pending;
                state.due = Instant::now();
                self.note(state, "stopped", None);
                After::Stays
            }
            Err(failure) => {
                let reason = failure.to_string();
                // A one-time request from `_replicate` gets the error. A continuous one is retried if it had been
                // running.
                let over =
                    self.document.is_none() && (!self.spec.continuous || (!ready && state.errors == 0));
                if over {
                    state.phase = Phase::Failed(failure);
                } else {
                    if state.began.is_some_and(|began| began.elapsed() >= HEALTHY) {
                        state.errors = 0;
                    }
                    let pause = FIRST_PAUSE.saturating_mul(1 << state.errors.min(20)).min(LONGEST_PAUSE);
                    state.errors += 1;
                    state.due = Instant::now() + pause;
                    state.phase = Phase::Crashing(failure);
                }
                self.note(state, "crashed", Some(reason));
                if over { After::Over } else { After::Stays }
            }
        }
    }

    /// Stops the current run; the job will run again.
    pub(crate) fn interrupt(&self) {
        self.state.lock().stop.stop();
    }

    /// Cancels the job.
    pub(crate) fn remove(&self) {
        let mut state = self.state.lock();
        state.stop.stop();
        if !matches!(state.phase, Phase::Completed(_) | Phase::Failed(_)) {
            state.phase = Phase::Removed;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until `enough` accepts the phase or the job is over; `None` after `patience`.
    pub(crate) fn wait(&self, patience: Duration, mut enough: impl FnMut(&Phase) -> bool) -> Option<Phase> {
        let end = Instant::now() + patience;
        let mut state = self.state.lock();
        while !enough(&state.phase)
            && !matches!(state.phase, Phase::Completed(_) | Phase::Failed(_) | Phase::Removed)
        {
            if self.changed.wait_until(&mut state, end).timed_out() {
                return None;
            }
        }
        Some(state.phase.clone())
    }

    fn note(
        &self,
        mut state: parking_lot::MutexGuard<'_, JobState>,
        kind: &'static str,
        reason: Option<String>,
    ) {
        let time = Timestamp::now();
        state.updated = time;
        state.events.push_front(Event { time, kind, reason });
        state.events.truncate(EVENTS);
        drop(state);
        self.changed.notify_all();
    }

    /// CouchDB's name of the phase.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.phase() {
            Phase::Pending => "pending",
            Phase::Running { .. } => "running",
            Phase::Crashing(_) => "crashing",
            Phase::Completed(_) => "completed",
            Phase::Failed(_) | Phase::Removed => "failed",
        }
    }

    /// The `info` member in descriptions: the progress or the failure.
    pub(crate) fn info(&self) -> Value {
        match self.phase() {
            Phase::Crashing(failure) | Phase::Failed(failure) => json!({ "error": failure.to_string() }),
            Phase::Completed(_) => Value::Object(self.final_stats()),
            _ => Value::Object(self.progress.describe()),
        }
    }

    /// The statistics that are written into the replication document.
    pub(crate) fn final_stats(&self) -> Map<String, Value> {
        let mut stats = self.progress.describe();
        stats.remove("source_seq");
        stats.remove("through_seq");
        stats.insert("start_time".into(), json!(iso(self.added)));
        stats
    }

    /// The name that the replication has on this server.
    fn user(&self) -> Option<&str> {
        let given = self.spec.user_ctx.as_ref().and_then(|context| context.name());
        given.or_else(|| self.owner.name())
    }

    /// The number of failures since the last healthy run.
    pub(crate) fn error_count(&self) -> u32 {
        self.state.lock().errors
    }

    /// When the phase last changed.
    pub(crate) fn updated(&self) -> Timestamp {
        self.state.lock().updated
    }

    /// The description for `_scheduler/jobs`.
    pub(crate) fn describe(&self) -> Value {
        let events: Vec<Value> = self
            .state
            .lock()
            .events
            .iter()
            .map(|event| {
                let mut out = json!({ "timestamp": iso(event.time), "type": event.kind });
                if let Some(reason) = &event.reason {
                    out["reason"] = json!(reason);
                }
                out
            })
            .collect();
        json!({
            "id": self.id,
            "database": self.document.as_ref().map(|key| &key.database),
            "doc_id": self.document.as_ref().map(|key| &key.id),
            "source": self.spec.source.shown(),
            "target": self.spec.target.shown(),
            "user": self.user(),
            "node": crate::NODE,
            "pid": null,
            "state": self.state_name(),
            "info": self.info(),
            "history": events,
            "start_time": iso(self.added),
        })
    }

    /// The description for `_active_tasks`; `None` if the job is not running.
    pub(crate) fn task(&self) -> Option<Value> {
        let (began, updated) = {
            let state = self.state.lock();
            if !matches!(state.phase, Phase::Running { .. }) {
                return None;
            }
            let began = state.events.iter().find(|event| event.kind == "started").map(|event| event.time);
            (began.unwrap_or(self.added), Timestamp::now())
        };
        let mut task = self.progress.describe();
        let more = json!({
            "type": "replication",
            "replication_id": self.id,
            "database": self.document.as_ref().map(|key| &key.database),
            "doc_id": self.document.as_ref().map(|key| &key.id),
            "source": self.spec.source.shown(),
            "target": self.spec.target.shown(),
            "continuous": self.spec.continuous,
            "checkpoint_interval": self.spec.checkpoint_interval.as_millis() as u64,
            "user": self.user(),
            "node": crate::NODE,
            "pid": null,
            "started_on": began.as_second(),
            "updated_on": updated.as_second(),
        });
        if let Value::Object(more) = more {
            task.extend(more);
        }
        Some(Value::Object(task))
    }
}

/// Formats a time like CouchDB, with seconds.
pub(super) fn iso(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(continuous: bool, document: bool) -> Arc<Job> {
        let body = json!({ "source": "a", "target": "b", "continuous": continuous });
        let spec =
            Spec::parse(body.as_object().unwrap(), &crate::replicator::spec::Defaults::default()).unwrap();
        let key = DocumentKey { database: "_replicator".into(), id: "d".into() };
        Job::new("base".into(), spec, document.then_some(key), Owner::Name(None))
    }

    #[test]
    fn failed_jobs_end_or_are_retried() {
        let failure = || Err(Failure::new("db_not_found", "could not open a"));
        // Jobs from `_replicate` end, unless both databases had been opened.
        for continuous in [false, true] {
            let job = job(continuous, false);
            job.begin().unwrap();
            assert_eq!(job.end(failure()), After::Over);
            assert!(matches!(job.phase(), Phase::Failed(_)));
        }
        let once = job(true, false);
        once.begin().unwrap();
        once.ready();
        assert_eq!(once.end(failure()), After::Stays);
        // Jobs of documents are retried after growing pauses.
        let job = job(false, true);
        let mut last = Duration::ZERO;
        for _ in 0..4 {
            job.begin().unwrap();
            assert_eq!(job.end(failure()), After::Stays);
            let pause = job.due().unwrap() - Instant::now();
            assert!(pause > last, "{pause:?}");
            last = pause;
        }
        assert_eq!((job.state_name(), job.error_count()), ("crashing", 4));
        assert_eq!(job.describe()["history"][0]["reason"], "db_not_found: could not open a");
        job.begin().unwrap();
        assert_eq!(job.end(Ok(Map::new())), After::Over);
        assert!(job.begin().is_none());
    }

    #[test]
    fn a_cancelled_job_stays_cancelled() {
        let job = job(true, false);
        let stop = job.begin().unwrap();
        job.remove();
        assert!(stop.is_stopped());
        assert_eq!(job.end(Err(Failure::stopped())), After::Over);
        assert!(matches!(job.wait(Duration::ZERO, |_| false), Some(Phase::Removed)));
    }
}
