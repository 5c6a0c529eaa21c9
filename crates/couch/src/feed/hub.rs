//! What all waiting feeds of a database share: one reader of its newest changes.
//!
//! A hub is there while somebody waits. It is told of each write, reads what came since it last looked, once, and holds
//! the newest rows for all: a feed that is not far behind takes them from here, one that is reads the log itself until
//! it has caught up.

use crate::error::Result;
use diwan_kv::Direction;
use diwan_store::{ChangeRow, Collection, Namespace, Subscription};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

/// How many rows a hub holds.
const ROWS: usize = 1024;

/// The newest changes of a database.
#[derive(Clone)]
pub struct Window {
    /// The rows below are all changes after this sequence…
    pub start: u64,
    /// …up to this one.
    pub end: u64,
    /// In their order.
    rows: Vec<Arc<ChangeRow>>,
    /// The database was deleted, or has another name now.
    pub closed: bool,
}

impl Window {
    /// The rows after a sequence that is not before the window.
    pub fn after(&self, since: u64) -> &[Arc<ChangeRow>] {
        &self.rows[self.rows.partition_point(|row| row.sequence <= since)..]
    }

    /// The window after `rows` have come, which reach to the sequence `end`.
    fn extended(&self, rows: Vec<ChangeRow>, end: u64) -> Window {
        let mut all = Vec::with_capacity((self.rows.len() + rows.len()).min(2 * ROWS));
        all.extend(self.rows.iter().cloned());
        all.extend(rows.into_iter().map(Arc::new));
        let surplus = all.len().saturating_sub(ROWS);
        let mut start = self.start;
        if let Some(dropped) = surplus.checked_sub(1).and_then(|last| all.get(last)) {
            start = dropped.sequence;
        }
        all.drain(..surplus);
        Window { start, end, rows: all, closed: self.closed }
    }
}

/// The hub of one database.
pub struct Hub {
    name: Namespace,
    tip: watch::Sender<Arc<Window>>,
    reader: AbortHandle,
    _subscription: Subscription,
}

impl Hub {
    /// The window, and word of each new one.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Window>> {
        self.tip.subscribe()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The hubs of a server, by the databases' identifiers.
#[derive(Default)]
pub struct Hubs {
    hubs: Mutex<HashMap<[u8; 16], Weak<Hub>>>,
}

impl Hubs {
    /// The hub of a database, which lives as long as somebody holds it. To be called within the runtime.
    pub fn of(&self, collection: &Arc<Collection>) -> Arc<Hub> {
        let mut hubs = self.hubs.lock();
        let name = collection.namespace();
        let known = hubs.get(&collection.uuid()).and_then(Weak::upgrade);
        // One from before the collection was renamed is about to close.
        if let Some(hub) = known.filter(|hub| hub.name == name) {
            return hub;
        }
        hubs.retain(|_, hub| hub.strong_count() > 0);
        let news = Arc::new(Notify::new());
        let waker = news.clone();
        let subscription = collection.on_change(Box::new(move || waker.notify_one()));
        // Subscribed before it is read, so that nothing falls between.
        let last = collection.last_sequence();
        let (tip, _) =
            watch::channel(Arc::new(Window { start: last, end: last, rows: Vec::new(), closed: false }));
        let reader = Handle::current().spawn(read(collection.clone(), name.clone(), news, tip.clone()));
        let hub = Arc::new(Hub { name, tip, reader: reader.abort_handle(), _subscription: subscription });
        hubs.insert(collection.uuid(), Arc::downgrade(&hub));
        hub
    }
}

/// Reads what comes, until the database is deleted or renamed, or the hub is dropped.
async fn read(
    collection: Arc<Collection>,
    name: Namespace,
    news: Arc<Notify>,
    tip: watch::Sender<Arc<Window>>,
) {
    loop {
        if collection.is_dropped() || collection.namespace() != name {
            tip.send_modify(|window| Arc::make_mut(window).closed = true);
            return;
        }
        let window = tip.borrow().clone();
        if collection.last_sequence() <= window.end {
            news.notified().await;
            continue;
        }
        let reader = collection.clone();
        match tokio::task::spawn_blocking(move || look(&reader, &window)).await {
            Ok(Ok(Some(window))) => drop(tip.send_replace(Arc::new(window))),
            Ok(Ok(None)) => news.notified().await,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the changes of a database cannot be read");
                news.notified().await;
            }
            // The server is closing.
            Err(_) => return,
        }
    }
}

/// The window after what has come.
fn look(collection: &Arc<Collection>, window: &Window) -> Result<Option<Window>> {
    let last = collection.last_sequence();
    let rows = collection.changes(window.end, ROWS, Direction::Forward)?;
    let more = rows.len() == ROWS;
    // What was changed twice has left its older place: the end may be a sequence that no row has.
    let newest = rows.last().map_or(0, |row| row.sequence);
    let end = if more { newest } else { newest.max(last) };
    Ok((end > window.end).then(|| window.extended(rows, end)))
}
