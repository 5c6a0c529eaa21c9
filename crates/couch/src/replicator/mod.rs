//! The replicator: copies documents with their histories from one database to another, once or continuously.
//!
//! Replications are defined by `POST /_replicate` or by documents in `_replicator` databases. The [`Replicator`]
//! schedules the jobs and runs each on a thread; a [`run`] speaks CouchDB's replication protocol with source and
//! target through [`peer`]s. Failed jobs are retried after growing pauses. Only the documents survive a restart of
//! the server; their replications then continue from the checkpoints stored in the databases.

mod attachments;
mod changes;
mod checkpoint;
mod context;
mod documents;
mod endpoint;
mod failure;
mod follower;
mod job;
mod members;
pub(crate) mod owner;
mod peer;
mod progress;
mod protocol;
mod run;
mod spec;
mod stop;
mod transfer;

pub(crate) use documents::{check_document, is_replicator};
pub use follower::{FollowSettings, Follower};

use crate::error::{Error, Result};
use crate::server::Couch;
use crate::uuids::push_hex;
use context::UserContext;
use diwan_access::Caller;
use documents::Documents;
use endpoint::Endpoint;
use failure::{Failure, Kind};
use job::{After, Job, Phase};
use owner::Owner;
use parking_lot::{Condvar, Mutex};
use peer::{Http, Local, Patience, Peer, Remote, Security, Trust};
use protocol::Database;
use run::{End, Settings, Task};
use serde_json::{Map, Value};
use spec::{Defaults, Spec, Wanted};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use stop::Stop;
use tokio::runtime::Handle;

/// How many jobs run at once; more wait.
const MOST_JOBS: usize = 200;
/// How long a continuous job runs before it is interrupted in favour of a waiting one.
const TURN: Duration = Duration::from_secs(60);
/// The scheduler runs at least this often.
const TICK: Duration = Duration::from_secs(1);
/// How long closing waits for jobs to end.
const CLOSING: Duration = Duration::from_secs(5);

/// All replications of a server.
pub(crate) struct Replicator {
    couch: Weak<Couch>,
    runtime: Handle,
    http: Arc<Http>,
    /// This server's identity in replication ids.
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
    /// The number of running job threads.
    threads: usize,
}

/// How long [`Replicator::outcome`] occupies its thread.
const MOMENT: Duration = Duration::from_millis(20);

/// The result of a `_replicate` request.
pub(crate) enum Asked {
    /// The request is complete.
    Done(Outcome),
    /// A job has started: poll [`Replicator::outcome`].
    Job(Arc<Job>),
}

/// The outcome of a `_replicate` request.
pub(crate) enum Outcome {
    /// The replication completed, with this answer.
    Finished(Map<String, Value>),
    /// The continuous replication with this id is running.
    Started(String),
    /// The replication with this id was cancelled.
    Cancelled(String),
}

impl Replicator {
    /// Creates the replicator and starts its scheduler thread.
    pub(crate) fn start(couch: &Arc<Couch>, runtime: Handle) -> Arc<Replicator> {
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
            tracing::error!(%error, "the replicator's thread cannot be started");
        }
        replicator
    }

    /// Stops all jobs and waits briefly for their threads. Jobs of documents start again with the server.
    pub(crate) fn close(&self) {
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

    /// Starts or cancels the replication in the body of `_replicate`, with the rights of its caller.
    pub(crate) fn replicate(&self, object: &Map<String, Value>, caller: &Caller) -> Result<Asked> {
        if let Some(couch) = self.couch.upgrade() {
            couch.store.replica().check_writable()?;
        }
        let spec = match Wanted::parse(object, &self.defaults()).map_err(Failure::into_error)? {
            Wanted::Run(spec) => *spec,
            Wanted::Cancel(id) => return self.cancel(&id, caller).map(Asked::Done),
            Wanted::CancelSame(spec) => {
                let id = spec.base_id(&self.server()?) + &spec.extension();
                return self.cancel(&id, caller).map(Asked::Done);
            }
        };
        if let Some(context) = &spec.user_ctx {
            context.check(caller)?;
        }
        let base = spec.base_id(&self.server()?);
        Ok(Asked::Job(self.add(Job::new(base, spec, None, Owner::Caller(caller.clone())))?))
    }

    /// Returns the outcome of a job; `None` if there is none after a short wait.
    pub(crate) fn outcome(&self, job: &Arc<Job>) -> Result<Option<Outcome>> {
        let continuous = job.spec.continuous;
        let phase = job.wait(MOMENT, |phase| match phase {
            Phase::Running { ready } => continuous && *ready,
            phase => matches!(phase, Phase::Crashing(_)),
        });
        let Some(phase) = phase else { return Ok(None) };
        // The job's thread may not have removed it yet; the client must not see it after the answer.
        if matches!(phase, Phase::Completed(_) | Phase::Failed(_)) {
            self.forget(job);
        }
        match phase {
            Phase::Completed(answer) => Ok(Some(Outcome::Finished(answer))),
            Phase::Failed(failure) => Err(failure.into_error()),
            // The scheduler retries a job that a document defines; this request does not wait for that.
            Phase::Crashing(failure) if !continuous => Err(failure.into_error()),
            Phase::Removed if self.closing.is_stopped() => Err(Error::unavailable("The server is closing.")),
            Phase::Removed => Err(Error::new(500, "cancelled", "The replication was cancelled.")),
            _ => Ok(Some(Outcome::Started(job.id.clone()))),
        }
    }

    fn cancel(&self, id: &str, caller: &Caller) -> Result<Outcome> {
        let mut jobs = self.jobs.lock();
        // A job that a document defines is only cancelled with the document.
        let job = jobs.by_id.get(id).filter(|job| job.document.is_none()).ok_or_else(Error::missing)?;
        if !caller.is_server_admin() && !job.owner.is(caller) {
            return Err(Error::unauthorized("Unauthorized to replicate to target or cancel."));
        }
        if let Some(job) = jobs.by_id.remove(id) {
            job.remove();
        }
        Ok(Outcome::Cancelled(id.to_owned()))
    }

    /// Describes all jobs, sorted by id.
    pub(crate) fn jobs(&self) -> Vec<Value> {
        self.list().iter().map(|job| job.describe()).collect()
    }

    /// Describes one job.
    pub(crate) fn job(&self, id: &str) -> Option<Value> {
        let id = id.replace(' ', "+");
        self.jobs.lock().by_id.get(&id).cloned().map(|job| job.describe())
    }

    /// Describes the running jobs for `_active_tasks`.
    pub(crate) fn tasks(&self) -> Vec<Value> {
        self.list().iter().filter_map(|job| job.task()).collect()
    }

    /// Describes the documents of a replicator database, sorted by id.
    pub(crate) fn documents(&self, database: &str) -> Vec<Value> {
        self.documents.describe(database)
    }

    fn list(&self) -> Vec<Arc<Job>> {
        self.jobs.lock().by_id.values().cloned().collect()
    }

    /// Adds a job, or returns an equivalent existing one.
    fn add(&self, job: Arc<Job>) -> Result<Arc<Job>> {
        if self.closing.is_stopped() {
            return Err(Error::unavailable("The server is closing."));
        }
        let mut jobs = self.jobs.lock();
        if let Some(other) = jobs.by_id.get(&job.id) {
            if other.document.is_some() || (other.spec == job.spec && other.owner.is_same(&job.owner)) {
                return Ok(other.clone());
            }
            if !other.owner.is_same(&job.owner) && !job.owner.is_admin() {
                return Err(Error::forbidden("The replication belongs to another user."));
            }
            // The same replication with other options replaces the old job.
            other.remove();
        }
        jobs.by_id.insert(job.id.clone(), job.clone());
        drop(jobs);
        self.changed.notify_all();
        Ok(job)
    }

    /// Removes this job, but not another one with the same id.
    fn forget(&self, job: &Arc<Job>) {
        let mut jobs = self.jobs.lock();
        if jobs.by_id.get(&job.id).is_some_and(|there| Arc::ptr_eq(there, job)) {
            jobs.by_id.remove(&job.id);
        }
    }

    /// Returns this server's identity, the UUID of its `_replicator` database.
    fn server(&self) -> Result<String> {
        let mut server = self.server.lock();
        if let Some(id) = &*server {
            return Ok(id.clone());
        }
        let couch = self.couch.upgrade().ok_or_else(|| Error::unavailable("The server is closing."))?;
        let mut id = String::with_capacity(32);
        push_hex(&mut id, &couch.find_database("_replicator")?.uuid());
        Ok(server.insert(id).clone())
    }

    /// The scheduler's loop: starts jobs that are due, until the server closes.
    fn schedule(self: Arc<Self>) {
        while !self.closing.is_stopped() {
            if self.is_following() {
                let mut jobs = self.jobs.lock();
                jobs.by_id.values().for_each(|job| job.interrupt());
                self.changed.wait_until(&mut jobs, Instant::now() + TICK);
                continue;
            }
            self.watch_documents();
            let (most, turn) = self.limits();
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
                if jobs.threads >= most {
                    make_room(&jobs, now, turn);
                    break;
                }
                if let Some(stop) = job.begin() {
                    jobs.threads += 1;
                    let replicator = self.clone();
                    let thread = std::thread::Builder::new().name("replication".to_owned());
                    let task = job.clone();
                    if let Err(error) = thread.spawn(move || replicator.run_job(&task, stop)) {
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

    /// Whether the server follows another one, which does the replications.
    fn is_following(&self) -> bool {
        self.couch.upgrade().is_some_and(|couch| couch.store.replica().follows())
    }

    /// Runs a job once.
    fn run_job(self: &Arc<Self>, job: &Arc<Job>, stop: Stop) {
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
            let caller = self.caller_of(&job.owner)?;
            run::run_replication(&task, &|end, settings| self.open(&job.spec, end, settings, &caller))
        }))
        .unwrap_or_else(|_| {
            Err(Failure::new(
                "internal_server_error",
                "the replication failed because of an internal error, which is logged",
            ))
        });
        match &result {
            Ok(_) => tracing::info!(id = job.id, "replication is done"),
            Err(failure) if failure.kind == Kind::Stopped => {
                tracing::info!(id = job.id, "replication is stopped")
            }
            Err(failure) => tracing::warn!(id = job.id, %failure, "replication failed"),
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

    /// How many jobs run at once, and how long a continuous one runs before it makes room, as the settings say.
    fn limits(&self) -> (usize, Duration) {
        let Some(couch) = self.couch.upgrade() else { return (MOST_JOBS, TURN) };
        let most =
            couch.setting_number("replicator", "max_jobs", MOST_JOBS as u64).clamp(1, MOST_JOBS as u64);
        let turn = couch.setting_number("replicator", "interval", TURN.as_millis() as u64).max(1000);
        (most as usize, Duration::from_millis(turn))
    }

    /// The defaults of replications.
    fn defaults(&self) -> Defaults {
        self.couch.upgrade().map_or_else(Defaults::default, |couch| Defaults::of(&couch))
    }

    /// With whose rights a run works on databases of this server. A server without users has no callers.
    fn caller_of(&self, owner: &Owner) -> std::result::Result<Caller, Failure> {
        let couch = self.couch.upgrade().ok_or_else(Failure::stopped)?;
        let access = &couch.access;
        let find = || {
            if access.is_open()? {
                return Ok(Caller::Everybody);
            }
            match owner {
                Owner::Caller(caller) => access.renew(caller),
                Owner::Name(None) => Ok(Caller::Anonymous),
                Owner::Name(Some(name)) => match access.http_user(name)? {
                    Some(user) => access.principal(&user).map(Caller::User),
                    None => Ok(Caller::Anonymous),
                },
            }
        };
        find().map_err(|error: diwan_access::Error| Error::from(error).into())
    }

    /// Opens the source or the target of a replication.
    fn open(
        &self,
        spec: &Spec,
        end: End,
        settings: Settings,
        caller: &Caller,
    ) -> std::result::Result<Database, Failure> {
        let endpoint = match end {
            End::Source => &spec.source,
            End::Target => &spec.target,
        };
        let Settings { silence, retries, stop } = settings;
        let peer: Box<dyn Peer> = match endpoint {
            Endpoint::Local(name) => {
                let caller = (caller.clone(), spec.user_ctx.clone());
                Box::new(self.local(name, stop.clone(), Some(caller))?)
            }
            Endpoint::Remote(address) => {
                let patience = Patience { silence, stop: stop.clone() };
                let couch = self.couch.upgrade().ok_or_else(Failure::stopped)?;
                let plugins = couch.setting("replicator", "auth_plugins").unwrap_or_default();
                let signs_in = plugins.contains("couch_replicator_auth_session");
                let security = Security { trust: Trust::of(&couch), signs_in };
                Box::new(Remote::new(self.http.clone(), address.clone(), patience, security)?)
            }
        };
        Ok(Database::new(peer, retries, stop))
    }

    fn local(
        &self,
        name: &str,
        stop: Stop,
        caller: Option<(Caller, Option<UserContext>)>,
    ) -> std::result::Result<Local, Failure> {
        let couch = self.couch.upgrade().ok_or_else(Failure::stopped)?;
        Ok(Local::new(&couch, self.runtime.clone(), name, stop, caller))
    }
}

/// Interrupts the continuous job that has been running longest, in favour of a waiting one.
fn make_room(jobs: &Jobs, now: Instant, turn: Duration) {
    let oldest = jobs
        .by_id
        .values()
        .filter(|job| job.spec.continuous)
        .filter_map(|job| Some((job.running_since()?, job)))
        .min_by_key(|pair| pair.0);
    if let Some((since, job)) = oldest
        && now.duration_since(since) >= turn
    {
        job.interrupt();
    }
}
