//! A store's place in a replica set of two or more servers: one primary, and followers that copy it.
//!
//! A follower asks the primary what is new ([`news`](mod@news)), makes its catalog the same ([`reconcile`](mod@reconcile)), and
//! copies documents from the change logs with their revision trees ([`copy`](mod@copy)). The faces carry these messages.
//! Other documents, indexes and settings are those of the primary, so whatever else would write is refused:
//! [`Replica::check_writable`] guards the write gate of each collection and every change of the catalog.
//!
//! What a server is lies in one document of `local.replica` ([`Identity`]). The database `local` is never copied.

pub mod copy;
mod identity;
mod members;
pub mod news;
pub mod reconcile;

pub use identity::{Identity, Role};
pub use members::{Announcement, Member, NotReplicated};

use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::feed::{Subscription, Watchers};
use crate::namespace::Namespace;
use crate::ops::is_temporary;
use crate::store::{Entry, Store};
use members::Members;
use parking_lot::{Condvar, Mutex, RwLock};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// MongoDB's code for a write that a follower refuses.
pub const NOT_WRITABLE_PRIMARY: i32 = 10107;

/// The database that each server has for itself.
pub const OWN_DATABASE: &str = "local";

thread_local! {
    /// Whether this thread applies what the primary wrote, or does local work that no client sees.
    static APPLIES: Cell<bool> = const { Cell::new(false) };
}

/// Lets this thread write to the store of a follower while it lives.
pub struct Applying {
    before: bool,
    /// It belongs to the thread that made it.
    _thread: PhantomData<*const ()>,
}

impl Applying {
    /// Begins.
    pub fn begin() -> Applying {
        Applying { before: APPLIES.replace(true), _thread: PhantomData }
    }

    /// Whether one lives on this thread.
    pub(crate) fn is_under_way() -> bool {
        APPLIES.get()
    }
}

impl Drop for Applying {
    fn drop(&mut self) {
        APPLIES.set(self.before);
    }
}

/// What a follower knows of the server that it follows.
#[derive(Clone, Debug, Default)]
pub struct Primary {
    /// Its address for MongoDB's clients.
    pub host: String,
    /// Its URL, without a password.
    pub url: String,
    /// The addresses of all members for MongoDB's clients, the primary's first.
    pub hosts: Vec<String>,
    /// Why it cannot be followed at the moment.
    pub trouble: Option<String>,
    /// Until when everything that it had is applied here.
    caught_up: Option<Instant>,
    /// Whether nothing is known to be missing here.
    is_current: bool,
    /// The time of its clock up to which everything is applied here.
    pub applied: u64,
}

/// How MongoDB's clients reach a server.
#[derive(Default)]
struct Own {
    host: Option<String>,
    port: u16,
    set_name: String,
}

/// The place of a store in its replica set.
pub struct Replica {
    follows: AtomicBool,
    identity: RwLock<Identity>,
    /// How MongoDB's clients reach this server.
    own: RwLock<Own>,
    /// The server that this one follows.
    primary: RwLock<Primary>,
    members: Members,
    /// Wakes readers that wait for [`Primary::applied`].
    applying: (Mutex<()>, Condvar),
    /// Counts the changes of what drivers see.
    version: AtomicI64,
    watchers: Arc<Watchers>,
}

impl Replica {
    pub(crate) fn new() -> Arc<Replica> {
        Arc::new(Replica {
            follows: AtomicBool::new(false),
            identity: RwLock::default(),
            own: RwLock::default(),
            primary: RwLock::default(),
            members: Members::default(),
            applying: Default::default(),
            version: AtomicI64::new(0),
            watchers: Arc::default(),
        })
    }

    /// Whether this server follows another one: then clients only read.
    pub fn follows(&self) -> bool {
        self.follows.load(Ordering::Acquire)
    }

    /// Refuses a write to a follower, except from a thread that applies what the primary wrote.
    pub fn check_writable(&self) -> Result<()> {
        if !self.follows() || APPLIES.get() {
            return Ok(());
        }
        let url = self.primary.read().url.clone();
        let primary = if url.is_empty() { "another one" } else { &*url };
        let text = format!("not primary: this server follows {primary}; write there");
        Err(Error::refused(NOT_WRITABLE_PRIMARY, text))
    }

    /// What this server is.
    pub fn identity(&self) -> Identity {
        self.identity.read().clone()
    }

    /// Whether the copy is complete, so that clients may read it. True on a primary.
    pub fn is_readable(&self) -> bool {
        !self.follows() || self.identity.read().complete
    }

    /// The address of this server for MongoDB's clients, if it has one for all of them, and the port.
    pub fn own_address(&self) -> (Option<String>, u16) {
        let own = self.own.read();
        (own.host.clone(), own.port)
    }

    /// The name of the replica set that drivers see: that of the primary.
    pub fn set_name(&self) -> String {
        let told = self.identity.read().set_name.clone();
        if told.is_empty() { self.own.read().set_name.clone() } else { told }
    }

    /// Sets how MongoDB's clients reach this server, and the name of its replica set, before there are clients.
    pub fn introduce(&self, host: Option<String>, port: u16, set_name: &str) {
        *self.own.write() = Own { host, port, set_name: set_name.to_owned() };
    }

    /// What is known of the server that this one follows; `None` on a primary.
    pub fn primary(&self) -> Option<Primary> {
        self.follows().then(|| self.primary.read().clone())
    }

    /// Changes what is known of the server that this one follows.
    pub fn note_primary(&self, change: impl FnOnce(&mut Primary)) {
        let (before, after) = {
            let mut primary = self.primary.write();
            let before = (primary.host.clone(), primary.hosts.clone());
            change(&mut primary);
            (before, (primary.host.clone(), primary.hosts.clone()))
        };
        if before != after {
            self.changed();
        }
    }

    /// How long ago this follower had everything that its primary had; `None` if it never had, or on a primary.
    pub fn lag(&self) -> Option<Duration> {
        let primary = self.primary.read();
        let caught_up = primary.caught_up.filter(|_| self.follows())?;
        Some(if primary.is_current { Duration::ZERO } else { caught_up.elapsed() })
    }

    /// The followers that have announced themselves lately.
    pub fn members(&self) -> Vec<Member> {
        self.members.list()
    }

    /// The addresses of all members for MongoDB's clients. `own` is that of this server.
    pub fn hosts(&self, own: &str) -> Vec<String> {
        let mut hosts = match self.primary() {
            Some(primary) if !primary.hosts.is_empty() => primary.hosts,
            Some(_) => Vec::new(),
            None => {
                let followers = self.members().into_iter().map(|member| member.host);
                std::iter::once(own.to_owned()).chain(followers).collect()
            }
        };
        if !hosts.iter().any(|host| host == own) {
            hosts.push(own.to_owned());
        }
        hosts
    }

    /// Notes a message of a follower.
    pub fn announce(&self, announcement: Announcement) {
        if self.members.announce(announcement) {
            self.changed();
        }
    }

    /// The number of a new report to a follower. Call it before the report is made.
    pub fn next_report(&self) -> u64 {
        self.members.next_report()
    }

    /// Wakes those who wait to make a report.
    pub fn nudge(&self) {
        self.members.nudge();
    }

    /// Whether a writer waits for a report to this follower, and how often reporters were woken so far.
    pub fn is_report_wanted(&self, member: &str) -> (bool, u64) {
        self.members.is_report_wanted(member)
    }

    /// Notes that a follower is sent a report.
    pub fn note_sent(&self, member: &str, report: u64) {
        self.members.note_sent(member, report);
    }

    /// Waits until reporters have been woken more often than `nudges` times, or until `deadline`.
    pub fn wait_for_nudge(&self, nudges: u64, deadline: Instant) {
        self.members.wait_for_nudge(nudges, deadline);
    }

    /// Forgets the followers that have been silent for long.
    pub fn forget_silent(&self) {
        if self.members.forget_silent() {
            self.changed();
        }
    }

    /// Waits until `count` followers have durably applied every write that was visible before this call, or until
    /// `deadline`, or as long as `go_on` says.
    pub fn wait_replicated(
        &self,
        count: usize,
        deadline: Option<Instant>,
        go_on: impl Fn() -> bool,
    ) -> std::result::Result<(), NotReplicated> {
        self.members.wait(count, deadline, go_on)
    }

    /// The number of what drivers see now. It grows with each change.
    pub fn version(&self) -> i64 {
        self.version.load(Ordering::SeqCst)
    }

    /// Calls `callback` after each change of what drivers see.
    pub fn on_change(&self, callback: Box<dyn Fn() + Send + Sync>) -> Subscription {
        self.watchers.add(callback)
    }

    /// Refuses writes as a follower does.
    #[cfg(test)]
    pub(crate) fn follow_in_test(&self) {
        self.follows.store(true, Ordering::Release);
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.watchers.wake();
    }

    /// The follower has applied everything that a report of the primary named. `time` is the primary's.
    pub fn note_applied(&self, time: u64) {
        let mut primary = self.primary.write();
        (primary.caught_up, primary.is_current, primary.applied) = (Some(Instant::now()), true, time);
        drop(primary);
        drop(self.applying.0.lock());
        self.applying.1.notify_all();
    }

    /// The time of the primary's clock up to which a follower has everything; `None` on a primary.
    pub fn applied(&self) -> Option<u64> {
        self.follows().then(|| self.primary.read().applied)
    }

    /// Waits until a follower has everything up to this time of the primary's clock, as long as `go_on` succeeds.
    pub fn wait_applied<E>(
        &self,
        time: u64,
        mut go_on: impl FnMut() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        const STEP: Duration = Duration::from_millis(50);
        let mut waiting = self.applying.0.lock();
        while self.applied().is_some_and(|applied| applied < time) {
            go_on()?;
            self.applying.1.wait_for(&mut waiting, STEP);
        }
        Ok(())
    }

    /// The primary has something that the follower does not have yet.
    pub fn note_behind(&self) {
        self.primary.write().is_current = false;
    }
}

impl Store {
    /// The collections that a follower copies, by name.
    pub fn copied_collections(&self) -> Vec<(Namespace, Arc<Collection>)> {
        let mut found = Vec::new();
        self.each_entry(None, &mut |namespace, entry| {
            if let Entry::Collection(collection) = entry
                && is_copied(namespace)
            {
                found.push((namespace.clone(), collection.clone()));
            }
        });
        found
    }

    /// Forgets how far each copy has come, so that everything is compared again.
    pub fn forget_positions(&self) -> Result<()> {
        let _applying = Applying::begin();
        for (_, collection) in self.copied_collections() {
            if collection.setting(copy::POSITION).is_some() {
                collection.set_setting(copy::POSITION, None)?;
            }
        }
        Ok(())
    }
}

/// Whether a collection or view is part of the copy. Each server has its own profile, and what it has set aside.
pub fn is_copied(namespace: &Namespace) -> bool {
    namespace.database != OWN_DATABASE
        && namespace.database != reconcile::SET_ASIDE
        && namespace.collection != "system.profile"
        && !is_temporary(namespace)
}
