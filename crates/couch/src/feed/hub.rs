//! What all waiting feeds of a database share: one reader of its newest changes.
//!
//! A hub is there while somebody waits. It is told of each write, reads what came since it last looked, once, and holds
//! the newest rows for all: a feed that is not far behind takes them from here, one that is reads the log itself until
//! it has caught up.
//!
//! A change that comes alone is read at once. Those that come one after the other are gathered, for longer the longer
//! they have been coming: what they cost beside their writes, in every feed and at whoever reads it, is then one look's
//! cost shared by many, and who waits for the last of them waits for a small part of the time that all have taken.

use crate::error::Result;
use diwan_kv::Direction;
use diwan_store::{ChangeRow, Collection, Namespace, Subscription};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// How many rows a hub holds, and of how many looks.
const ROWS: usize = 1024;
const RUNS: usize = 64;
/// How much of the time that changes have been coming already the next ones are gathered for…
const SHARE: u32 = 8;
/// …but for so long at least, and at most.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(20);

/// The newest changes of a database.
#[derive(Clone)]
pub struct Window {
    /// The rows below are all changes after this sequence…
    pub start: u64,
    /// …up to this one.
    pub end: u64,
    /// In their order: what each look found.
    runs: VecDeque<Arc<[ChangeRow]>>,
    /// The database was deleted, or has another name now.
    pub closed: bool,
}

impl Window {
    /// The rows after a sequence that is not before the window.
    pub fn after(&self, since: u64) -> impl Iterator<Item = &ChangeRow> {
        let is_told = move |row: &ChangeRow| row.sequence <= since;
        let first = self.runs.partition_point(|run| run.last().is_none_or(is_told));
        self.runs.range(first..).flat_map(move |run| &run[run.partition_point(is_told)..])
    }

    /// The window after `rows` have come, which reach to the sequence `end`.
    fn extended(&self, rows: Vec<ChangeRow>, end: u64) -> Window {
        let mut window = Window { end, ..self.clone() };
        if !rows.is_empty() {
            window.runs.push_back(rows.into());
        }
        let mut count: usize = window.runs.iter().map(|run| run.len()).sum();
        while count > ROWS || window.runs.len() > RUNS {
            let Some(dropped) = window.runs.pop_front() else { break };
            count -= dropped.len();
            window.start = dropped.last().map_or(window.start, |row| row.sequence);
        }
        window
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
            watch::channel(Arc::new(Window { start: last, end: last, runs: VecDeque::new(), closed: false }));
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
    let mut stream = Stream::default();
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
        tokio::time::sleep_until(stream.next_look(Instant::now())).await;
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

/// Changes that come one after the other.
#[derive(Default)]
struct Stream {
    /// The first look at them, and the last with the pause after it.
    looks: Option<(Instant, Instant, Duration)>,
}

impl Stream {
    /// When a change that is seen now is to be read: at once, unless it has come so soon after the last look that more
    /// are likely.
    fn next_look(&mut self, now: Instant) -> Instant {
        let (first, at) = match self.looks {
            Some((first, last, pause)) if now < last + 2 * pause => (first, now.max(last + pause)),
            _ => (now, now),
        };
        let pause = (at.duration_since(first) / SHARE).clamp(SHORTEST, LONGEST);
        self.looks = Some((first, at, pause));
        at
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

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_store::Revision;
    use diwan_value::Value;

    fn rows(sequences: impl IntoIterator<Item = u64>) -> Vec<ChangeRow> {
        let row = |sequence| ChangeRow {
            sequence,
            id: Vec::new(),
            id_value: Value::Null.to_owned(),
            revision: Revision { generation: 1, hash: [0; 16] },
            deleted: false,
            leaves: Vec::new(),
        };
        sequences.into_iter().map(row).collect()
    }

    fn told(window: &Window, since: u64) -> Vec<u64> {
        window.after(since).map(|row| row.sequence).collect()
    }

    #[test]
    fn a_window_holds_the_newest_rows() {
        let empty = Window { start: 4, end: 4, runs: VecDeque::new(), closed: false };
        let window = empty.extended(rows([5, 7, 8]), 9).extended(Vec::new(), 10).extended(rows([11]), 11);
        assert_eq!((window.start, window.end), (4, 11));
        assert_eq!(told(&window, 4), [5, 7, 8, 11]);
        assert_eq!(told(&window, 6), [7, 8, 11]);
        assert_eq!(told(&window, 8), [11]);
        assert_eq!(told(&window, 11), [0; 0]);
        // Too many rows, and too many looks, cost the oldest.
        let many = window.extended(rows(12..12 + ROWS as u64), 11 + ROWS as u64);
        assert_eq!((many.start, told(&many, 11).len()), (11, ROWS));
        let mut looked = empty;
        for sequence in 5..5 + 2 * RUNS as u64 {
            looked = looked.extended(rows([sequence]), sequence);
        }
        assert_eq!(looked.start, 4 + RUNS as u64);
        assert_eq!(told(&looked, looked.start).len(), RUNS);
    }

    #[test]
    fn changes_in_a_stream_are_gathered() {
        let begin = Instant::now();
        let mut stream = Stream::default();
        // Each is there as soon as the one before was read.
        let (mut now, mut looks, mut longest) = (begin, 0, Duration::ZERO);
        while now < begin + Duration::from_secs(1) {
            let at = stream.next_look(now);
            longest = longest.max(at - now);
            assert!(at - now <= SHORTEST.max((now - begin) / SHARE));
            (now, looks) = (at, looks + 1);
        }
        assert_eq!(longest, LONGEST);
        assert!((50..100).contains(&looks), "{looks}");
        // One that comes alone is read at once, and so is each of those that come slowly.
        for _ in 0..100 {
            now += 2 * LONGEST;
            assert_eq!(stream.next_look(now), now);
            now += 2 * SHORTEST;
            assert_eq!(stream.next_look(now), now);
        }
    }
}
