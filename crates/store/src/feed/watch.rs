//! Callbacks after changes. Without subscribers, a change costs one load of a counter.

use crate::collection::Collection;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// Called after each change, on the thread that made it. It must not block and must be short.
type Callback = Arc<dyn Fn() + Send + Sync>;

/// The subscribers.
#[derive(Default)]
pub(crate) struct Watchers {
    /// The number of subscribers, to be read without the lock.
    count: AtomicUsize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    callbacks: BTreeMap<u64, Callback>,
}

impl Watchers {
    /// Adds a subscriber. It is not called for earlier changes, so it must check for them once after this returns.
    pub fn add(self: &Arc<Self>, callback: Box<dyn Fn() + Send + Sync>) -> Subscription {
        let mut waiting = self.waiting.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.callbacks.insert(number, Arc::from(callback));
        self.count.store(waiting.callbacks.len(), Ordering::Relaxed);
        drop(waiting);
        // Either the subscriber's check sees a concurrent change, or the thread that published the change sees the new
        // count.
        fence(Ordering::SeqCst);
        Subscription { watchers: self.clone(), number }
    }

    /// Calls all subscribers. The caller has published the change and holds no locks.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        // The callbacks run without the lock, since a callback may end its own subscription.
        let callbacks: Vec<Callback> = self.waiting.lock().callbacks.values().cloned().collect();
        callbacks.iter().for_each(|callback| callback());
    }
}

/// A subscription to changes. Dropping it ends the callbacks.
pub struct Subscription {
    watchers: Arc<Watchers>,
    number: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut waiting = self.watchers.waiting.lock();
        let ended = waiting.callbacks.remove(&self.number);
        self.watchers.count.store(waiting.callbacks.len(), Ordering::Relaxed);
        drop(waiting);
        drop(ended);
    }
}

impl Collection {
    /// Calls `callback` after each batch of changes of the collection, and after it is renamed or dropped, on the
    /// thread that did so. The callback must not block. It is not called for changes before this returns, so the caller
    /// reads [`Collection::last_sequence`] afterwards.
    pub fn on_change(&self, callback: Box<dyn Fn() + Send + Sync>) -> Subscription {
        self.watchers.add(callback)
    }

    /// Calls the subscribers after a change, and records the update for `_db_updates`.
    pub(crate) fn changed(&self) {
        self.watchers.wake();
        if self.update_flag.raise() {
            self.shared.databases.updated(self.namespace(), self.update_flag.clone());
        }
    }

    /// Whether the collection was dropped.
    pub fn is_dropped(&self) -> bool {
        self.schema().dropped
    }
}
