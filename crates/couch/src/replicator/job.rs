//! A replication as the scheduler knows it: waiting, running, or waiting to be tried again.

use super::failure::{Failure, Kind};
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
/// The pause after the first failure; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// A run that lasted this long was healthy: the next failure counts as the first.
const HEALTHY: Duration = Duration::from_secs(120);

/// A document of a `_replicator` database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentKey {
    /// The database, as HTTP names it.
    pub database: String,
    /// The id.
    pub id: String,
}

/// A replication.
pub struct Job {
    /// The id of the job: that of the checkpoints and what distinguishes jobs with the same ones.
    pub id: String,
    /// The id of the checkpoints.
    pub base: String,
    /// What is replicated.
    pub spec: Spec,
    /// The document that asks for it; none for one from `_replicate`.
    pub document: Option<DocumentKey>,
    /// When it was asked for.
    pub added: Timestamp,
    /// What it did so far, in all its runs.
    pub progress: Arc<Progress>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    phase: Phase,
    events: VecDeque<Event>,
    /// The end of the current run.
    stop: Stop,
    errors: u32,
    /// Not before then is it tried again.
    due: Instant,
    began: Option<Instant>,
    updated: Timestamp,
}

/// Where a job is.
#[derive(Clone, Debug)]
pub enum Phase {
    /// It waits for its turn.
    Pending,
    /// It runs; `ready` once both ends are open.
    Running {
        /// Whether both ends are open.
        ready: bool,
    },
    /// It failed and will be tried again.
    Crashing(Failure),
    /// It is done: the answer.
    Completed(Map<String, Value>),
    /// It will not be tried again.
    Failed(Failure),
    /// Nobody wants it any more.
    Removed,
}

struct Event {
    time: Timestamp,
    kind: &'static str,
    reason: Option<String>,
}

/// What becomes of a job after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// It stays with the scheduler.
    Stays,
    /// It is over.
    Over,
}

impl Job {
    /// A job that waits for its turn.
    pub fn new(base: String, spec: Spec, document: Option<DocumentKey>) -> Arc<Job> {
        let now = Timestamp::now();
        Arc::new(Job {
            id: base.clone() + &spec.extension(),
            base,
            spec,
            document,
            added: now,
            progress: Arc::default(),
            state: Mutex::new(State {
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

    /// Where it is.
    pub fn phase(&self) -> Phase {
        self.state.lock().phase.clone()
    }

    /// When it may begin, if it waits.
    pub fn due(&self) -> Option<Instant> {
        let state = self.state.lock();
        matches!(state.phase, Phase::Pending | Phase::Crashing(_)).then_some(state.due)
    }

    /// Since when it runs, if it does.
    pub fn running_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        if matches!(state.phase, Phase::Running { .. }) { state.began } else { None }
    }

    /// Begins a run: what ends it. `None` if the job is not waiting.
    pub fn begin(&self) -> Option<Stop> {
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

    /// Both ends are open.
    pub fn ready(&self) {
        let mut state = self.state.lock();
        if let Phase::Running { ready } = &mut state.phase {
            *ready = true;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends a run.
    pub fn end(&self, result: Result<Map<String, Value>, Failure>) -> After {
        let mut state = self.state.lock();
        let Phase::Running { ready } = state.phase else {
            // It was removed meanwhile.
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
                // A client that waits is told; a replication that did run once goes on when it can.
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

    /// Ends the current run; the job waits for its next turn.
    pub fn interrupt(&self) {
        self.state.lock().stop.stop();
    }

    /// Ends the job for ever.
    pub fn remove(&self) {
        let mut state = self.state.lock();
        state.stop.stop();
        if !matches!(state.phase, Phase::Completed(_) | Phase::Failed(_)) {
            state.phase = Phase::Removed;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until the phase is what is waited for, or the job is over; nothing if that takes longer than `patience`.
    pub fn wait(&self, patience: Duration, mut enough: impl FnMut(&Phase) -> bool) -> Option<Phase> {
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
        mut state: parking_lot::MutexGuard<'_, State>,
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

    /// CouchDB's name of where it is.
    pub fn state_name(&self) -> &'static str {
        match self.phase() {
            Phase::Pending => "pending",
            Phase::Running { .. } => "running",
            Phase::Crashing(_) => "crashing",
            Phase::Completed(_) => "completed",
            Phase::Failed(_) | Phase::Removed => "failed",
        }
    }

    /// What there is to tell of it: its progress, or its failure.
    pub fn info(&self) -> Value {
        match self.phase() {
            Phase::Crashing(failure) | Phase::Failed(failure) => json!({ "error": failure.to_string() }),
            Phase::Completed(_) => Value::Object(self.final_stats()),
            _ => Value::Object(self.progress.describe()),
        }
    }

    /// What is noted in the document at the end.
    pub fn final_stats(&self) -> Map<String, Value> {
        let mut stats = self.progress.describe();
        stats.remove("source_seq");
        stats.remove("through_seq");
        stats.insert("start_time".into(), json!(iso(self.added)));
        stats
    }

    /// How often it failed since it was healthy.
    pub fn error_count(&self) -> u32 {
        self.state.lock().errors
    }

    /// When its state changed last.
    pub fn updated(&self) -> Timestamp {
        self.state.lock().updated
    }

    /// As `_scheduler/jobs` tells it.
    pub fn describe(&self) -> Value {
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
            "user": null,
            "node": crate::handlers::membership::NODE,
            "pid": null,
            "state": self.state_name(),
            "info": self.info(),
            "history": events,
            "start_time": iso(self.added),
        })
    }

    /// As `_active_tasks` tells it, while it runs.
    pub fn task(&self) -> Option<Value> {
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
            "user": null,
            "node": crate::handlers::membership::NODE,
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

/// A time as CouchDB writes it, to the second.
pub fn iso(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(continuous: bool, document: bool) -> Arc<Job> {
        let body = json!({ "source": "a", "target": "b", "continuous": continuous });
        let spec = Spec::parse(body.as_object().unwrap()).unwrap();
        let key = DocumentKey { database: "_replicator".into(), id: "d".into() };
        Job::new("base".into(), spec, document.then_some(key))
    }

    #[test]
    fn failures_are_told_or_tried_again() {
        let failure = || Err(Failure::new("db_not_found", "could not open a"));
        // From `_replicate`: told, unless it ran before.
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
        // From a document: tried again, after ever longer pauses.
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
    fn a_removed_job_stays_removed() {
        let job = job(true, false);
        let stop = job.begin().unwrap();
        job.remove();
        assert!(stop.is_stopped());
        assert_eq!(job.end(Err(Failure::stopped())), After::Over);
        assert!(matches!(job.wait(Duration::ZERO, |_| false), Some(Phase::Removed)));
    }
}
