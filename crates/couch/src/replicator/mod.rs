//! Replication: documents and their histories flow from one database to another, once or for ever.
//!
//! A replication comes from `POST /_replicate` or from a document of a `_replicator` database. The [`Replicator`] keeps
//! the jobs and starts each on a thread of its own when it is due; a [`run`] speaks CouchDB's protocol with both ends
//! through [`peer`]s. What fails is tried again after ever longer pauses. Nothing but the documents outlives the server:
//! after a restart their replications begin again, at the checkpoints that lie in the databases themselves.

mod attachments;
mod changes;
mod checkpoint;
mod documents;
mod endpoint;
mod failure;
mod job;
mod members;
mod peer;
mod progress;
mod protocol;
mod run;
mod spec;
mod stop;
mod transfer;

pub use documents::{check_document, is_replicator};

use crate::error::{Error, Result};
use crate::server::Couch;
use crate::uuids::push_hex;
use documents::Documents;
use endpoint::Endpoint;
use failure::{Failure, Kind};
use job::{After, Job, Phase};
use parking_lot::{Condvar, Mutex};
use peer::{Http, Local, Patience, Peer, Remote};
use protocol::Database;
use run::{End, Settings, Task};
use serde_json::{Map, Value};
use spec::{Spec, Wanted};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use stop::Stop;
use tokio::runtime::Handle;

/// How many jobs run at once; the others wait for their turn.
const MOST_JOBS: usize = 200;
/// How long a continuous job runs at least before it makes room for one that waits.
const TURN: Duration = Duration::from_secs(60);
/// The scheduler looks around at least this often.
const TICK: Duration = Duration::from_secs(1);
/// How long jobs may take to end when the server closes.
const CLOSING: Duration = Duration::from_secs(5);

/// All replications of a server.
pub struct Replicator {
    couch: Weak<Couch>,
    runtime: Handle,
    http: Arc<Http>,
    /// What tells this server from others in the ids of replications.
    server: Mutex<Option<String>>,
    jobs: Mutex<Jobs>,
    changed: Condvar,
    /// The documents of `_replicator` databases.
    documents: Documents,
    closing: Stop,
}

#[derive(Default)]
struct Jobs {
    by_id: BTreeMap<String, Arc<Job>>,
    /// How many threads of jobs there are.
    threads: usize,
}

/// How long a thread waits for what becomes of a job before it is given back.
const MOMENT: Duration = Duration::from_millis(20);

/// What is begun by a request to `_replicate`.
pub enum Asked {
    /// Nothing more: it is done.
    Done(Outcome),
    /// A job: see [`Replicator::outcome`].
    Job(Arc<Job>),
}

/// What became of a request to `_replicate`.
pub enum Outcome {
    /// It is done: the answer.
    Finished(Map<String, Value>),
    /// It goes on, under this id.
    Started(String),
    /// It was ended.
    Cancelled(String),
}

impl Replicator {
    /// Begins to look after replications, on threads of its own.
    pub fn start(couch: &Arc<Couch>, runtime: Handle) -> Arc<Replicator> {
        let replicator = Arc::new(Replicator {
            couch: Arc::downgrade(couch),
            http: Http::new(runtime.clone()),
            runtime,
            server: Mutex::new(None),
            jobs: Mutex::default(),
            changed: Condvar::new(),
            documents: Documents::default(),
            closing: Stop::default(),
        });
        let scheduler = replicator.clone();
        let spawned =
            std::thread::Builder::new().name("replicator".to_owned()).spawn(move || scheduler.schedule());
        if let Err(error) = spawned {
            tracing::error!(%error, "replications cannot run: no thread for them");
        }
        replicator
    }

    /// Ends all jobs and waits a moment for their threads. Those of documents begin again when the server does.
    pub fn close(&self) {
        let mut jobs = self.jobs.lock();
        self.closing.stop();
        for job in jobs.by_id.values() {
            match &job.document {
                Some(_) => job.interrupt(),
                None => job.remove(),
            }
        }
        self.changed.notify_all();
        let end = Instant::now() + CLOSING;
        while jobs.threads > 0 {
            if self.changed.wait_until(&mut jobs, end).timed_out() {
                break;
            }
        }
    }

    /// Does what the body of `_replicate` asks for, or begins to.
    pub fn replicate(&self, object: &Map<String, Value>) -> Result<Asked> {
        let spec = match Wanted::parse(object).map_err(Failure::into_error)? {
            Wanted::Run(spec) => *spec,
            Wanted::Cancel(id) => return self.cancel(&id).map(Asked::Done),
            Wanted::CancelSame(spec) => {
                let id = spec.base_id(&self.server()?) + &spec.extension();
                return self.cancel(&id).map(Asked::Done);
            }
        };
        let base = spec.base_id(&self.server()?);
        Ok(Asked::Job(self.add(Job::new(base, spec, None))?))
    }

    /// What there is to answer of a job that was asked for; nothing yet if that takes more than a moment.
    pub fn outcome(&self, job: &Arc<Job>) -> Result<Option<Outcome>> {
        let continuous = job.spec.continuous;
        let phase = job.wait(MOMENT, |phase| match phase {
            Phase::Running { ready } => continuous && *ready,
            phase => matches!(phase, Phase::Crashing(_)),
        });
        let Some(phase) = phase else { return Ok(None) };
        // Its thread may not have come to that yet, and who is answered must not see it any more.
        if matches!(phase, Phase::Completed(_) | Phase::Failed(_)) {
            self.forget(job);
        }
        match phase {
            Phase::Completed(answer) => Ok(Some(Outcome::Finished(answer))),
            Phase::Failed(failure) => Err(failure.into_error()),
            // One that a document asks for is tried again; who asks for it here need not wait for that.
            Phase::Crashing(failure) if !continuous => Err(failure.into_error()),
            Phase::Removed if self.closing.is_stopped() => Err(Error::unavailable("The server is closing.")),
            Phase::Removed => Err(Error::new(500, "cancelled", "The replication was cancelled.")),
            _ => Ok(Some(Outcome::Started(job.id.clone()))),
        }
    }

    fn cancel(&self, id: &str) -> Result<Outcome> {
        let mut jobs = self.jobs.lock();
        // What a document asks for ends with the document.
        if jobs.by_id.get(id).is_none_or(|job| job.document.is_some()) {
            return Err(Error::missing());
        }
        if let Some(job) = jobs.by_id.remove(id) {
            job.remove();
        }
        Ok(Outcome::Cancelled(id.to_owned()))
    }

    /// All jobs, by their ids.
    pub fn jobs(&self) -> Vec<Value> {
        self.list().iter().map(|job| job.describe()).collect()
    }

    /// One job.
    pub fn job(&self, id: &str) -> Option<Value> {
        let id = id.replace(' ', "+");
        self.jobs.lock().by_id.get(&id).cloned().map(|job| job.describe())
    }

    /// The jobs that run, for `_active_tasks`.
    pub fn tasks(&self) -> Vec<Value> {
        self.list().iter().filter_map(|job| job.task()).collect()
    }

    /// The documents of a `_replicator` database, by their ids.
    pub fn documents(&self, database: &str) -> Vec<Value> {
        self.documents.describe(database)
    }

    fn list(&self) -> Vec<Arc<Job>> {
        self.jobs.lock().by_id.values().cloned().collect()
    }

    /// Adds a job; one that is the same and there already is taken in its place.
    fn add(&self, job: Arc<Job>) -> Result<Arc<Job>> {
        if self.closing.is_stopped() {
            return Err(Error::unavailable("The server is closing."));
        }
        let mut jobs = self.jobs.lock();
        if let Some(other) = jobs.by_id.get(&job.id) {
            if other.document.is_some() || other.spec == job.spec {
                return Ok(other.clone());
            }
            // The same databases with other options: the new ones count.
            other.remove();
        }
        jobs.by_id.insert(job.id.clone(), job.clone());
        drop(jobs);
        self.changed.notify_all();
        Ok(job)
    }

    /// Removes a job that is this very one.
    fn forget(&self, job: &Arc<Job>) {
        let mut jobs = self.jobs.lock();
        if jobs.by_id.get(&job.id).is_some_and(|there| Arc::ptr_eq(there, job)) {
            jobs.by_id.remove(&job.id);
        }
    }

    /// The identity of this server, which its `_replicator` database has.
    fn server(&self) -> Result<String> {
        let mut server = self.server.lock();
        if let Some(id) = &*server {
            return Ok(id.clone());
        }
        let couch = self.couch.upgrade().ok_or_else(|| Error::unavailable("The server is closing."))?;
        let mut id = String::with_capacity(32);
        push_hex(&mut id, &couch.database("_replicator")?.uuid());
        Ok(server.insert(id).clone())
    }

    /// Starts what is due, until the server closes.
    fn schedule(self: Arc<Self>) {
        while !self.closing.is_stopped() {
            self.watch_documents();
            let now = Instant::now();
            let mut jobs = self.jobs.lock();
            let mut due: Vec<(Instant, Arc<Job>)> =
                jobs.by_id.values().filter_map(|job| Some((job.due()?, job.clone()))).collect();
            due.sort_by_key(|pair| pair.0);
            let mut next = now + TICK;
            for (at, job) in due {
                if at > now {
                    next = next.min(at);
                    break;
                }
                if jobs.threads >= MOST_JOBS {
                    make_room(&jobs, now);
                    break;
                }
                if let Some(stop) = job.begin() {
                    jobs.threads += 1;
                    let replicator = self.clone();
                    let thread = std::thread::Builder::new().name("replication".to_owned());
                    let task = job.clone();
                    if let Err(error) = thread.spawn(move || replicator.run(&task, stop)) {
                        jobs.threads -= 1;
                        job.end(Err(Failure::passing("internal_server_error", error.to_string())));
                    }
                }
            }
            if !self.closing.is_stopped() {
                self.changed.wait_until(&mut jobs, next);
            }
        }
    }

    /// Runs a job once.
    fn run(self: &Arc<Self>, job: &Arc<Job>, stop: Stop) {
        tracing::info!(
            id = job.id,
            source = job.spec.source.shown(),
            target = job.spec.target.shown(),
            "replication starts"
        );
        let task = Task {
            spec: &job.spec,
            id: &job.base,
            progress: job.progress.clone(),
            stop,
            started: &|| job.ready(),
        };
        let result = catch_unwind(AssertUnwindSafe(|| {
            run::run(&task, &|end, settings| self.open(&job.spec, end, settings))
        }))
        .unwrap_or_else(|_| {
            Err(Failure::new("internal_server_error", "the replication met a fault, which is logged"))
        });
        match &result {
            Ok(_) => tracing::info!(id = job.id, "replication is done"),
            Err(failure) if failure.kind == Kind::Stopped => {
                tracing::info!(id = job.id, "replication is stopped")
            }
            Err(failure) => tracing::warn!(id = job.id, %failure, "replication ended before its time"),
        }
        let completed = result.is_ok();
        if job.end(result) == After::Over {
            self.forget(job);
            if completed && let Some(key) = &job.document {
                self.note_completed(key, job);
            }
        }
        self.jobs.lock().threads -= 1;
        self.changed.notify_all();
    }

    /// Opens one end of a replication.
    fn open(&self, spec: &Spec, end: End, settings: Settings) -> std::result::Result<Database, Failure> {
        let endpoint = match end {
            End::Source => &spec.source,
            End::Target => &spec.target,
        };
        let Settings { silence, retries, stop } = settings;
        let peer: Box<dyn Peer> = match endpoint {
            Endpoint::Local(name) => Box::new(self.local(name, stop.clone())?),
            Endpoint::Remote(address) => {
                let patience = Patience { silence, stop: stop.clone() };
                Box::new(Remote::new(self.http.clone(), address.clone(), patience)?)
            }
        };
        Ok(Database::new(peer, retries, stop))
    }

    fn local(&self, name: &str, stop: Stop) -> std::result::Result<Local, Failure> {
        let couch = self.couch.upgrade().ok_or_else(Failure::stopped)?;
        Ok(Local::new(&couch, self.runtime.clone(), name, stop))
    }
}

/// Lets the continuous job that runs longest make room for one that waits.
fn make_room(jobs: &Jobs, now: Instant) {
    let oldest = jobs
        .by_id
        .values()
        .filter(|job| job.spec.continuous)
        .filter_map(|job| Some((job.running_since()?, job)))
        .min_by_key(|pair| pair.0);
    if let Some((since, job)) = oldest
        && now.duration_since(since) >= TURN
    {
        job.interrupt();
    }
}
