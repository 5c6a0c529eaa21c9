//! Which databases of the HTTP face (collections) were created, updated and deleted, store-wide.
//!
//! Of each kind of event and each name only the newest is kept, in the order they happened, and only so many in all. An
//! update is noted once until somebody reads: a write that finds it noted only looks at a flag. Nothing of it is stored.
//! The sequences of a later start are greater, and it begins with the databases that it finds. What `$out` writes before
//! it takes its name is nobody's business.

use super::watch::{Subscription, Watchers};
use crate::clock;
use crate::namespace::Namespace;
use crate::store::Store;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many events are kept.
const MOST: usize = 65_536;

/// What happened to a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatabaseEventKind {
    /// It came to be, or was there at the start.
    Created,
    /// Documents in it changed.
    Updated,
    /// It was deleted.
    Deleted,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseEvent {
    /// Its place among all.
    pub sequence: u64,
    /// What happened.
    pub kind: DatabaseEventKind,
    /// To which collection.
    pub namespace: Namespace,
}

/// Whether a collection's update is noted already.
#[derive(Clone, Default)]
pub(crate) struct UpdateFlag(Arc<AtomicBool>);

impl UpdateFlag {
    /// Says whether it was not up before.
    pub fn raise(&self) -> bool {
        !self.0.load(Ordering::SeqCst) && !self.0.swap(true, Ordering::SeqCst)
    }
}

/// The events of a store.
pub(crate) struct DatabaseFeed {
    watchers: Arc<Watchers>,
    /// Collections that were updated since somebody looked.
    updated: Mutex<Vec<(Namespace, UpdateFlag)>>,
    log: Mutex<Log>,
}

struct Log {
    last: u64,
    events: BTreeMap<u64, (DatabaseEventKind, Namespace)>,
    newest: HashMap<(DatabaseEventKind, Namespace), u64>,
}

impl Log {
    fn add(&mut self, kind: DatabaseEventKind, namespace: Namespace) {
        if namespace.collection.starts_with(crate::ops::TEMPORARY_PREFIX) {
            return;
        }
        self.last += 1;
        self.events.insert(self.last, (kind, namespace.clone()));
        if let Some(older) = self.newest.insert((kind, namespace), self.last) {
            self.events.remove(&older);
        }
        if self.events.len() > MOST
            && let Some((_, oldest)) = self.events.pop_first()
        {
            self.newest.remove(&oldest);
        }
    }

    /// Notes the updates that came before whatever is noted next.
    fn take(&mut self, updated: &Mutex<Vec<(Namespace, UpdateFlag)>>) {
        for (namespace, flag) in std::mem::take(&mut *updated.lock()) {
            // Lowered before it is noted: a write from now on is noted anew.
            flag.0.store(false, Ordering::SeqCst);
            self.add(DatabaseEventKind::Updated, namespace);
        }
    }
}

impl DatabaseFeed {
    pub fn new() -> DatabaseFeed {
        // Greater than at any earlier start, and exact as a double for the next two centuries.
        let last = (clock::now_millis().max(0) as u64) << 10;
        let log = Log { last, events: BTreeMap::new(), newest: HashMap::new() };
        DatabaseFeed { watchers: Arc::default(), updated: Mutex::default(), log: Mutex::new(log) }
    }

    /// Notes an event that is visible now.
    pub fn note(&self, kind: DatabaseEventKind, namespace: &Namespace) {
        let mut log = self.log.lock();
        log.take(&self.updated);
        log.add(kind, namespace.clone());
        drop(log);
        self.watchers.wake();
    }

    /// Notes an update of a collection whose flag has just been raised.
    pub fn updated(&self, namespace: Namespace, flag: UpdateFlag) {
        self.updated.lock().push((namespace, flag));
        self.watchers.wake();
    }
}

impl Store {
    /// The events after sequence `since` in their order, up to `limit` of them.
    pub fn database_events(&self, since: u64, limit: usize) -> Vec<DatabaseEvent> {
        let feed = &self.shared.databases;
        let mut log = feed.log.lock();
        log.take(&feed.updated);
        let later = log.events.range((Bound::Excluded(since), Bound::Unbounded));
        let event = |(&sequence, (kind, namespace)): (&u64, &(DatabaseEventKind, Namespace))| DatabaseEvent {
            sequence,
            kind: *kind,
            namespace: namespace.clone(),
        };
        later.take(limit).map(event).collect()
    }

    /// The sequence of the newest event.
    pub fn last_database_event(&self) -> u64 {
        let feed = &self.shared.databases;
        let mut log = feed.log.lock();
        log.take(&feed.updated);
        log.last
    }

    /// Has `callback` called after each event, as [`Collection::on_change`](crate::Collection::on_change) does. Further
    /// updates of a collection are not told of before its last was read.
    pub fn on_database_event(&self, callback: Box<dyn Fn() + Send + Sync>) -> Subscription {
        self.shared.databases.watchers.add(callback)
    }
}
