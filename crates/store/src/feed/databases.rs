//! The log of created, updated and deleted databases of the HTTP face (collections), for `_db_updates`.
//!
//! The log is kept in memory. It holds the newest event of each kind and name, in the order of the events, up to a
//! limit. Further updates of a collection add no event until a follower has read the last one, so they cost a write
//! only the check of a flag. After a start the log holds a `Created` event for each collection, with greater sequences
//! than before. The temporary collections of `$out` do not appear.

use super::watch::{Subscription, Watchers};
use crate::clock;
use crate::namespace::Namespace;
use crate::ops::is_temporary;
use crate::store::Store;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many events are kept.
const MOST: usize = 65_536;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatabaseEventKind {
    /// The database was created, or existed at the start.
    Created,
    /// Documents in the database changed.
    Updated,
    /// The database was deleted.
    Deleted,
    /// Options, indexes or settings changed, or the name is that of a view. For followers; `_db_updates` does not show it.
    Altered,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseEvent {
    /// Its place in the log.
    pub sequence: u64,
    /// The kind of the event.
    pub kind: DatabaseEventKind,
    /// The collection.
    pub namespace: Namespace,
}

/// Whether an update of a collection awaits a reader of the log.
#[derive(Clone, Default)]
pub(crate) struct UpdateFlag(Arc<AtomicBool>);

impl UpdateFlag {
    /// Raises the flag. Returns whether it was down.
    pub fn raise(&self) -> bool {
        !self.0.load(Ordering::SeqCst) && !self.0.swap(true, Ordering::SeqCst)
    }
}

/// The events of a store.
pub(crate) struct DatabaseFeed {
    watchers: Arc<Watchers>,
    /// Collections that were updated since the log was read last.
    updated: Mutex<Vec<(Namespace, UpdateFlag)>>,
    log: Mutex<Log>,
}

struct Log {
    last: u64,
    /// The greatest sequence of an event that the log does not hold, although no later one replaced it.
    forgotten: u64,
    events: BTreeMap<u64, (DatabaseEventKind, Namespace)>,
    newest: HashMap<(DatabaseEventKind, Namespace), u64>,
}

impl Log {
    fn add(&mut self, kind: DatabaseEventKind, namespace: Namespace) {
        if is_temporary(&namespace) {
            return;
        }
        self.last += 1;
        self.events.insert(self.last, (kind, namespace.clone()));
        if let Some(older) = self.newest.insert((kind, namespace), self.last) {
            self.events.remove(&older);
        }
        if self.events.len() > MOST
            && let Some((sequence, oldest)) = self.events.pop_first()
        {
            self.newest.remove(&oldest);
            self.forgotten = sequence;
        }
    }

    /// Adds the events of the waiting updates, before any later event.
    fn take(&mut self, updated: &Mutex<Vec<(Namespace, UpdateFlag)>>) {
        for (namespace, flag) in std::mem::take(&mut *updated.lock()) {
            // The flag is lowered first, so that a write from now on adds a new event.
            flag.0.store(false, Ordering::SeqCst);
            self.add(DatabaseEventKind::Updated, namespace);
        }
    }
}

impl DatabaseFeed {
    pub fn new() -> DatabaseFeed {
        // Greater than at any earlier start, and exact as a double for the next two centuries.
        let last = (clock::now_millis().max(0) as u64) << 10;
        let log = Log { last, forgotten: last, events: BTreeMap::new(), newest: HashMap::new() };
        DatabaseFeed { watchers: Arc::default(), updated: Mutex::default(), log: Mutex::new(log) }
    }

    /// Adds an event. Its effect is visible already.
    pub fn note(&self, kind: DatabaseEventKind, namespace: &Namespace) {
        let mut log = self.log.lock();
        log.take(&self.updated);
        log.add(kind, namespace.clone());
        drop(log);
        self.watchers.wake();
    }

    /// Adds a collection to the waiting updates. The caller has just raised its flag.
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

    /// Whether the log holds all that happened after sequence `since`.
    pub fn has_database_events_after(&self, since: u64) -> bool {
        let log = self.shared.databases.log.lock();
        since >= log.forgotten && since <= log.last
    }

    /// The sequence of the newest event.
    pub fn last_database_event(&self) -> u64 {
        let feed = &self.shared.databases;
        let mut log = feed.log.lock();
        log.take(&feed.updated);
        log.last
    }

    /// Calls `callback` after each event, like [`Collection::on_change`](crate::Collection::on_change). Further updates
    /// of a collection cause no call until its last update event has been read.
    pub fn on_database_event(&self, callback: Box<dyn Fn() + Send + Sync>) -> Subscription {
        self.shared.databases.watchers.add(callback)
    }
}
