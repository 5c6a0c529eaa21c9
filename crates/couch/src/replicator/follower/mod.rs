//! The follower: keeps a copy of everything that another Diwan has.
//!
//! One thread asks the primary for news, makes the catalog the same, copies the collections whose change logs have moved,
//! and asks again, which acknowledges what it has. A second thread says every few seconds that the follower is there,
//! because a round may take long. The store does the work ([`diwan_store::replica`]), the primary's side is
//! `handlers/follow`.

mod client;
mod join;
mod rejoin;
mod round;

use super::endpoint::{Address, Endpoint};
use super::failure::{Failure, Kind};
use super::peer::{Http, Trust};
use super::stop::Stop;
use client::{Client, Greeting};
use diwan_query::Interrupt;
use diwan_store::Store;
use diwan_store::replica::Role;
use parking_lot::Mutex;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;

/// How long an idle request for news waits at the primary.
const WAIT: Duration = Duration::from_secs(8);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the follower says that it is there.
const ANNOUNCED_EVERY: Duration = Duration::from_secs(5);
/// How long the primary may be silent within an answer.
const SILENCE: Duration = Duration::from_secs(30);

/// What `--follow` and its companions say.
pub struct FollowSettings {
    /// The URL of the primary's HTTP port, with name and password. It is never shown as it is.
    pub url: String,
    /// A file with certificates of authorities to trust, beside those of the system.
    pub authorities: Option<PathBuf>,
    /// Whether to follow in spite of what the store has of its own.
    pub rejoins: bool,
}

/// A follower.
pub struct Follower {
    store: Arc<Store>,
    client: Client,
    settings: FollowSettings,
    /// Ends waits and requests.
    stop: Stop,
    /// Ends index builds.
    interrupt: Interrupt,
    /// The position of the next report.
    position: AtomicU64,
    /// The number of the last report that is durable here.
    acknowledged: AtomicU64,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held by a round, so that a promotion waits until the fetched changes are applied.
    working: Mutex<()>,
    /// The last message about the primary in the log.
    logged: Mutex<Option<String>>,
}

impl Follower {
    /// Creates a follower that does nothing yet.
    pub fn new(
        store: Arc<Store>,
        settings: FollowSettings,
        runtime: Handle,
    ) -> Result<Arc<Follower>, String> {
        let address = match Endpoint::parse(Some(&Value::String(settings.url.clone())), "follow") {
            Ok(Endpoint::Remote(address)) => address,
            _ => {
                return Err("--follow needs the URL of the primary's HTTP port, such as \
                            http://user:password@host:5984"
                    .to_owned());
            }
        };
        let stop = Stop::default();
        let trust = Trust::with(settings.authorities.as_deref());
        let client = Client::new(Http::new(runtime), address, trust, stop.clone())
            .map_err(|failure| format!("--follow: {failure}"))?;
        Ok(Arc::new(Follower {
            store,
            client,
            settings,
            stop,
            interrupt: Interrupt::new(),
            position: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            threads: Mutex::default(),
            working: Mutex::new(()),
            logged: Mutex::default(),
        }))
    }

    /// The primary's URL, without the password.
    pub fn shown(&self) -> String {
        self.client.shown().to_owned()
    }

    /// Starts to copy. The server may be serving already: then clients see how the copy grows.
    pub fn start(self: &Arc<Self>) -> Result<(), String> {
        let spawn = |name: &str, run: fn(&Follower)| {
            let own = self.clone();
            let thread = std::thread::Builder::new().name(name.to_owned());
            let spawned =
                thread.spawn(move || run(&own)).map_err(|error| format!("cannot start a thread: {error}"))?;
            self.threads.lock().push(spawned);
            Ok::<_, String>(())
        };
        spawn("diwan-follower", Follower::follow)?;
        spawn("diwan-announcer", Follower::keep_announcing)
    }

    /// Stops copying. Call it from a thread that may block.
    pub fn stop(&self) {
        self.stop.stop();
        self.interrupt.kill();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the follower panicked");
            }
        }
    }

    /// Applies the fetched changes, stops copying, and makes this server the primary.
    pub fn promote(&self) -> Result<String, String> {
        let identity = self.store.replica().identity();
        if !self.store.replica().follows() {
            return Err("this server is a primary already".to_owned());
        }
        if identity.role != Role::Follower || !identity.complete {
            return Err(format!(
                "this server has not copied everything of {} yet, so it cannot take its place",
                self.client.shown()
            ));
        }
        // A round that is under way applies what it has fetched. It fetches nothing more: the primary may be gone.
        self.stop.stop();
        let working = self.working.lock();
        let identity = self.store.promote().map_err(|error| format!("cannot promote: {error}"))?;
        drop(working);
        self.stop();
        tracing::info!(term = identity.term, "this server is the primary now");
        Ok(format!(
            "this server is the primary now, in term {}. Stop the old one, or start it again with --follow and this \
             server's URL",
            identity.term
        ))
    }

    /// The thread that copies.
    fn follow(&self) {
        while !self.stop.is_stopped() {
            let outcome = self.round();
            match outcome {
                Ok(()) => self.note_trouble(None),
                Err(failure) if failure.kind == Kind::Stopped || self.stop.is_stopped() => return,
                Err(failure) => {
                    self.store.replica().note_behind();
                    self.note_trouble(Some(&failure));
                    if self.stop.sleep(PAUSE).is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// The thread that says that the follower is there.
    fn keep_announcing(&self) {
        while self.stop.sleep(ANNOUNCED_EVERY).is_ok() {
            // The other thread reports failures.
            let _ = self.client.announce(&self.greeting(true));
        }
    }

    /// What this server says of itself.
    fn greeting(&self, is_member: bool) -> Greeting {
        let replica = self.store.replica();
        let identity = replica.identity();
        Greeting {
            member: identity.member,
            host: replica.own_address().0.unwrap_or_default(),
            acknowledged: self.acknowledged.load(Ordering::Relaxed),
            applied: replica.primary().map_or(0, |primary| primary.applied),
            is_complete: identity.complete,
            is_member,
        }
    }

    /// Remembers and logs a new state of the connection to the primary. The same failure is logged once.
    fn note_trouble(&self, failure: Option<&Failure>) {
        let trouble = failure.map(ToString::to_string);
        self.store.replica().note_primary(|primary| primary.trouble = trouble.clone());
        let mut logged = self.logged.lock();
        match (&*logged, &trouble) {
            (Some(_), None) => tracing::info!(primary = self.client.shown(), "following again"),
            (before, Some(trouble)) if before.as_ref() != Some(trouble) => {
                tracing::warn!(primary = self.client.shown(), trouble, "cannot follow; trying again");
            }
            _ => {}
        }
        *logged = trouble;
    }
}

/// The failure of a local operation.
fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new("store", error.to_string())
}

/// The host of a URL, for a primary that has no address of its own.
fn host_of(address: &Address) -> String {
    let origin = address.origin();
    let host = origin.split_once("://").map_or(origin.as_str(), |(_, host)| host);
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name.to_owned(),
        _ => host.to_owned(),
    }
}
