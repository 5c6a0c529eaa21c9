//! The reader of new changes that all waiting feeds of a database share.
//!
//! A hub exists while at least one feed waits. It is notified of each write, reads the new changes once, and keeps
//! the newest rows for all feeds. A feed that is up to date takes its rows from the hub; a feed that lags behind
//! reads the log itself until it has caught up.
//!
//! A single change is read at once. Changes that arrive in quick succession are read in batches, and the delay grows
//! with the length of the burst up to a limit. Each batch has a fixed cost in every feed and at every client;
//! batching shares it among many changes, and the delay stays a small part of the burst's duration.

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

/// How many rows a hub keeps, and how many batches.
const ROWS: usize = 1024;
const BATCHES: usize = 64;
/// During a burst, the delay before the next read is the burst's duration divided by this…
const SHARE: u32 = 8;
/// …but at least and at most this.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(20);

/// The newest changes of a database.
#[derive(Clone)]
pub(crate) struct Window {
    /// The rows are all changes after this sequence…
    pub(crate) start: u64,
    /// …up to and including this one.
    pub(crate) end: u64,
    /// The rows in order, one entry per batch.
    batches: VecDeque<Arc<[ChangeRow]>>,
    /// The database was deleted or renamed.
    pub(crate) closed: bool,
}

impl Window {
    /// Iterates over the rows after a sequence that is not before the window's start.
    pub(crate) fn after(&self, since: u64) -> impl Iterator<Item = &ChangeRow> {
        let is_before = move |row: &ChangeRow| row.sequence <= since;
        let first = self.batches.partition_point(|batch| batch.last().is_none_or(is_before));
        self.batches.range(first..).flat_map(move |batch| &batch[batch.partition_point(is_before)..])
    }

    /// Returns the window with `rows` appended, which are all changes up to the sequence `end`. The oldest batches
    /// are dropped.
    fn extended(&self, rows: Vec<ChangeRow>, end: u64) -> Window {
        let mut window = Window { end, ..self.clone() };
        if !rows.is_empty() {
            window.batches.push_back(rows.into());
        }
        let mut count: usize = window.batches.iter().map(|batch| batch.len()).sum();
        while count > ROWS || window.batches.len() > BATCHES {
            let Some(dropped) = window.batches.pop_front() else { break };
            count -= dropped.len();
            window.start = dropped.last().map_or(window.start, |row| row.sequence);
        }
        window
    }
}

/// The hub of one database. Dropping it stops the reader.
pub(crate) struct Hub {
    name: Namespace,
    tip: watch::Sender<Arc<Window>>,
    reader: AbortHandle,
    _subscription: Subscription,
}

impl Hub {
    /// Returns a receiver of the current and all later windows.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Window>> {
        self.tip.subscribe()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// All hubs, by the UUIDs of the databases.
#[derive(Default)]
pub(crate) struct Hubs {
    hubs: Mutex<HashMap<[u8; 16], Weak<Hub>>>,
}

impl Hubs {
    /// Returns the hub of a database, creating it if necessary. It lives as long as a caller holds it. Call within a
    /// Tokio runtime.
    pub(crate) fn of(&self, collection: &Arc<Collection>) -> Arc<Hub> {
        let mut hubs = self.hubs.lock();
        let name = collection.namespace();
        let known = hubs.get(&collection.uuid()).and_then(Weak::upgrade);
        // A hub under the collection's former name is about to close; do not reuse it.
        if let Some(hub) = known.filter(|hub| hub.name == name) {
            return hub;
        }
        hubs.retain(|_, hub| hub.strong_count() > 0);
        let news = Arc::new(Notify::new());
        let waker = news.clone();
        let subscription = collection.on_change(Box::new(move || waker.notify_one()));
        // Subscribe before reading the sequence, so that no change is missed in between.
        let last = collection.last_sequence();
        let (tip, _) = watch::channel(Arc::new(Window {
            start: last,
            end: last,
            batches: VecDeque::new(),
            closed: false,
        }));
        let reader = Handle::current().spawn(read(collection.clone(), name.clone(), news, tip.clone()));
        let hub = Arc::new(Hub { name, tip, reader: reader.abort_handle(), _subscription: subscription });
        hubs.insert(collection.uuid(), Arc::downgrade(&hub));
        hub
    }
}

/// Reads new changes into the window until the database is deleted or renamed, or the task is aborted.
async fn read(
    collection: Arc<Collection>,
    name: Namespace,
    news: Arc<Notify>,
    tip: watch::Sender<Arc<Window>>,
) {
    let mut burst = Burst::default();
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
        tokio::time::sleep_until(burst.next_read(Instant::now())).await;
        let reader = collection.clone();
        match tokio::task::spawn_blocking(move || read_batch(&reader, &window)).await {
            Ok(Ok(Some(window))) => drop(tip.send_replace(Arc::new(window))),
            Ok(Ok(None)) => news.notified().await,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the changes of a database cannot be read");
                news.notified().await;
            }
            // The runtime is shutting down.
            Err(_) => return,
        }
    }
}

/// Schedules the reads during a burst of changes.
#[derive(Default)]
struct Burst {
    /// The time of the burst's first read, the time of the last one, and the delay after the last one.
    reads: Option<(Instant, Instant, Duration)>,
}

impl Burst {
    /// Returns when to read a change that was noticed at `now`: immediately, unless it follows the last read so
    /// closely that more changes are likely.
    fn next_read(&mut self, now: Instant) -> Instant {
        let (first, at) = match self.reads {
            Some((first, last, pause)) if now < last + 2 * pause => (first, now.max(last + pause)),
            _ => (now, now),
        };
        let pause = (at.duration_since(first) / SHARE).clamp(SHORTEST, LONGEST);
        self.reads = Some((first, at, pause));
        at
    }
}

/// Reads the changes after the window and returns the new window, or `None` if there are none.
fn read_batch(collection: &Arc<Collection>, window: &Window) -> Result<Option<Window>> {
    let last = collection.last_sequence();
    let rows = collection.changes(window.end, ROWS, Direction::Forward)?;
    let more = rows.len() == ROWS;
    // A document that changed again has moved to its newer sequence, so `end` may be a sequence that no row has.
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

    fn after(window: &Window, since: u64) -> Vec<u64> {
        window.after(since).map(|row| row.sequence).collect()
    }

    #[test]
    fn window_keeps_the_newest_rows_and_batches() {
        let empty = Window { start: 4, end: 4, batches: VecDeque::new(), closed: false };
        let window = empty.extended(rows([5, 7, 8]), 9).extended(Vec::new(), 10).extended(rows([11]), 11);
        assert_eq!((window.start, window.end), (4, 11));
        assert_eq!(after(&window, 4), [5, 7, 8, 11]);
        assert_eq!(after(&window, 6), [7, 8, 11]);
        assert_eq!(after(&window, 8), [11]);
        assert_eq!(after(&window, 11), [0; 0]);
        // Both limits drop the oldest batches.
        let many = window.extended(rows(12..12 + ROWS as u64), 11 + ROWS as u64);
        assert_eq!((many.start, after(&many, 11).len()), (11, ROWS));
        let mut small = empty;
        for sequence in 5..5 + 2 * BATCHES as u64 {
            small = small.extended(rows([sequence]), sequence);
        }
        assert_eq!(small.start, 4 + BATCHES as u64);
        assert_eq!(after(&small, small.start).len(), BATCHES);
    }

    #[test]
    fn bursts_are_batched_and_single_changes_read_at_once() {
        let begin = Instant::now();
        let mut burst = Burst::default();
        // Every change arrives as soon as the one before it has been read.
        let (mut now, mut reads, mut longest) = (begin, 0, Duration::ZERO);
        while now < begin + Duration::from_secs(1) {
            let at = burst.next_read(now);
            longest = longest.max(at - now);
            assert!(at - now <= SHORTEST.max((now - begin) / SHARE));
            (now, reads) = (at, reads + 1);
        }
        assert_eq!(longest, LONGEST);
        assert!((50..100).contains(&reads), "{reads}");
        // A single change is read at once, and so is each change of a slow sequence.
        for _ in 0..100 {
            now += 2 * LONGEST;
            assert_eq!(burst.next_read(now), now);
            now += 2 * SHORTEST;
            assert_eq!(burst.next_read(now), now);
        }
    }
}
