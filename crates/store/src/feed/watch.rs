//! Telling those who wait that something has changed. While nobody waits it costs one look at a number.

use crate::collection::Collection;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// Called after each change, on the thread that made it: it must not block, nor take long.
type Callback = Arc<dyn Fn() + Send + Sync>;

/// Who waits.
#[derive(Default)]
pub(crate) struct Watchers {
    /// How many there are, for a look without the lock.
    count: AtomicUsize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    callbacks: BTreeMap<u64, Callback>,
}

impl Watchers {
    /// Adds somebody, who has to look once after this: of what was published before, nobody tells.
    pub fn add(self: &Arc<Self>, callback: Box<dyn Fn() + Send + Sync>) -> Subscription {
        let mut waiting = self.waiting.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.callbacks.insert(number, Arc::from(callback));
        self.count.store(waiting.callbacks.len(), Ordering::Relaxed);
        drop(waiting);
        // Either the look that follows sees a change, or who publishes it sees the new count.
        fence(Ordering::SeqCst);
        Subscription { watchers: self.clone(), number }
    }

    /// Tells all of them. To be called after what there is to see has been published, without locks.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Called without the lock: a callback may end its own subscription.
        let callbacks: Vec<Callback> = self.waiting.lock().callbacks.values().cloned().collect();
        callbacks.iter().for_each(|callback| callback());
    }
}

/// Word of changes, until it is dropped.
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
    /// Has `callback` called after each change of the collection, and when it is renamed or dropped, on the thread that
    /// did it: it must not block. Changes from before this returns are not told of: look at [`Collection::last_sequence`]
    /// afterwards.
    pub fn on_change(&self, callback: Box<dyn Fn() + Send + Sync>) -> Subscription {
        self.watchers.add(callback)
    }

    /// Tells of a change that is visible now.
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
