//! Waking the readers of the log. A thread does it, so that a commit pays the same however many streams are open.

use super::event::Event;
use super::interest::ShownEvents;
use super::position::Position;
use super::stream::StreamState;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// If more bytes of events than this gather, the readers look at the events themselves.
const MOST_BYTES: usize = 8 << 20;

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
    waiting: BTreeMap<u64, (Arc<StreamState>, Callback)>,
    /// The events that no reader was woken for yet.
    news: News,
    has_thread: bool,
}

/// Events that follow each other in the log.
#[derive(Default)]
struct News {
    /// The event before them.
    from: Position,
    events: Vec<Arc<Event>>,
    bytes: usize,
    /// There were more: every reader has to look.
    is_incomplete: bool,
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
    /// Calls `callback` after each commit with events that the stream may show, in another thread. It must not block.
    pub fn add(&self, stream: Arc<StreamState>, callback: Box<dyn Fn() + Send + Sync>) -> EventSubscription {
        let mut state = self.inner.state.lock();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, (stream, Arc::from(callback)));
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

    /// Notes new events, which follow the one at `from`. Called in the order of the log.
    pub fn note(&self, from: Position, events: &[Arc<Event>]) {
        let mut state = self.inner.state.lock();
        if state.waiting.is_empty() {
            return;
        }
        let news = &mut state.news;
        if news.events.is_empty() {
            news.from = from;
        }
        news.bytes += events.iter().map(|event| event.bytes()).sum::<usize>();
        match news.bytes > MOST_BYTES {
            true => (news.is_incomplete, news.events) = (true, Vec::new()),
            false => news.events.extend_from_slice(events),
        }
    }

    /// Wakes the thread for what was noted.
    /// Notes that there may be any events.
    pub fn note_unknown(&self) {
        let mut state = self.inner.state.lock();
        state.news.bytes += 1;
        (state.news.is_incomplete, state.news.events) = (true, Vec::new());
    }

    pub fn wake(&self) {
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
        if state.news.bytes == 0 {
            // Now and then the thread looks whether the log still exists.
            inner.news.wait_for(&mut state, GONE);
        }
        let news = std::mem::take(&mut state.news);
        if news.bytes == 0 {
            continue;
        }
        let waiting: Vec<(Arc<StreamState>, Callback)> = state.waiting.values().cloned().collect();
        // Neither filters nor callbacks run under the lock: a callback may end its own subscription.
        drop(state);
        let mut shown = ShownEvents::default();
        for (stream, callback) in waiting {
            if news.is_incomplete || stream.is_woken_by(news.from, &news.events, &mut shown) {
                callback();
            }
        }
    }
}
