//! Waking the readers of the log. A thread does it, so that a commit pays the same however many streams are open.

use super::scope::EventScope;
use crate::namespace::Namespace;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};

/// More names than this are not told apart: every reader is woken.
const MANY_NAMES: usize = 64;

type Callback = Arc<dyn Fn() + Send + Sync>;

/// The readers that wait for events.
#[derive(Default)]
pub(super) struct Readers {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, (EventScope, Callback)>,
    /// The collections with new events that no reader was woken for yet.
    changed: HashSet<Namespace>,
    has_thread: bool,
}

/// A reader's place in the list. Dropping it ends the callbacks.
pub struct EventSubscription {
    inner: Weak<Inner>,
    number: u64,
}

impl Drop for EventSubscription {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            let removed = inner.state.lock().waiting.remove(&self.number);
            drop(removed);
        }
    }
}

impl Readers {
    /// Calls `callback` after each commit with events in the scope, in another thread. It must not block.
    pub fn add(&self, scope: EventScope, callback: Box<dyn Fn() + Send + Sync>) -> EventSubscription {
        let mut state = self.inner.state.lock();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, (scope, Arc::from(callback)));
        if !state.has_thread {
            let inner = Arc::downgrade(&self.inner);
            let thread = std::thread::Builder::new().name("diwan-events".to_owned());
            match thread.spawn(move || run(&inner)) {
                Ok(_) => state.has_thread = true,
                Err(error) => tracing::error!(%error, "cannot start the thread that wakes change streams"),
            }
        }
        EventSubscription { inner: Arc::downgrade(&self.inner), number }
    }

    /// Notes that collections have new events.
    pub fn wake(&self, names: Vec<Namespace>) {
        let mut state = self.inner.state.lock();
        if state.waiting.is_empty() {
            return;
        }
        state.changed.extend(names);
        drop(state);
        self.inner.news.notify_one();
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.inner.news.notify_all();
    }
}

/// Wakes readers until the log is gone.
fn run(inner: &Weak<Inner>) {
    const GONE: std::time::Duration = std::time::Duration::from_secs(1);
    loop {
        let Some(inner) = inner.upgrade() else { return };
        let mut state = inner.state.lock();
        if state.changed.is_empty() {
            // Now and then the thread looks whether the log still exists.
            inner.news.wait_for(&mut state, GONE);
        }
        let changed = std::mem::take(&mut state.changed);
        let concerned = |scope: &EventScope| {
            changed.len() > MANY_NAMES
                || changed.iter().any(|name| scope.contains(&name.database, &name.collection))
        };
        let woken: Vec<Callback> = state
            .waiting
            .values()
            .filter(|(scope, _)| !changed.is_empty() && concerned(scope))
            .map(|(_, callback)| callback.clone())
            .collect();
        // The callbacks run without the lock, since a callback may end its own subscription.
        drop(state);
        woken.iter().for_each(|callback| callback());
    }
}
