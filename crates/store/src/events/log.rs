//! The log of events: appending in the order of commits, reading, and waking readers.
//!
//! A commit with events takes the log's lock, gives its events their times, and keeps the lock until the engine has
//! committed. So events become visible in the order of their positions, and a reader that has seen one event never meets an
//! earlier one later. Commits without events do not take the lock.

use super::clock::ClusterClock;
use super::event::{Draft, Event};
use super::position::Position;
use super::readers::Readers;
use super::recordings::{Header, Recordings};
use super::scope::EventScope;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use diwan_kv::{Batch, BegunCommit, Bytes, CommitId, Direction, Engine, KeyRange, Snapshot, Space};
use diwan_value::{Doc, Timestamp};
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many bytes of the newest events are kept in memory, for readers that keep up.
const RECENT_BYTES: usize = 4 << 20;

/// How many events and bytes a reader gets at once.
const RUN_EVENTS: usize = 256;
const RUN_BYTES: usize = 1 << 20;

/// The log of events of a store.
pub(crate) struct EventLog {
    pub clock: Arc<ClusterClock>,
    /// Held from the moment at which events get their times until they are committed.
    order: Mutex<()>,
    recent: Mutex<Recent>,
    /// What is recorded. Changed only by whoever has the turn of schema changes.
    pub(super) recordings: RwLock<Arc<Recordings>>,
    /// About how many bytes the log holds.
    pub(super) bytes: AtomicU64,
    /// Between which positions events that were there when the log was opened are not counted in `bytes` yet.
    pub(super) uncounted: Mutex<Option<(Position, Position)>>,
    pub(super) readers: Readers,
    /// Other processes append, too.
    is_shared: bool,
    /// The log of a transaction only collects the events, in their order. Its commit gives them to the log of the store.
    collected: Option<Mutex<Vec<Draft>>>,
}

/// The transaction that made events, as they show it.
pub(crate) struct EventOrigin<'a> {
    /// The session's identifier, as clients see it.
    pub session: Doc<'a>,
    /// The number that the client gave the transaction.
    pub number: i64,
}

/// A commit that has been begun.
pub(crate) enum Begun<'a> {
    /// It has ended already.
    Ended(Result<CommitId>),
    /// Waits for its end.
    UnderWay(Box<dyn FnOnce() -> Result<CommitId> + 'a>),
}

/// The newest events.
struct Recent {
    /// Every later event is in the list.
    from: Position,
    events: VecDeque<Arc<Event>>,
    bytes: usize,
}

impl EventLog {
    /// Opens the log of the engine.
    pub fn open(engine: &dyn Engine) -> Result<EventLog> {
        let newest = newest_stored(engine.snapshot().as_ref())?;
        let header = Header::read(engine)?;
        let is_shared = engine.peers().is_some();
        let clock = ClusterClock::new(newest.unwrap_or_default().timestamp(), header.clock, is_shared);
        let clock = Arc::new(clock);
        // What other processes append meanwhile has to be read.
        let from = if is_shared { newest.unwrap_or_default() } else { Position::before(clock.now()) };
        let recordings = Arc::new(Recordings::read(engine, header)?);
        Ok(EventLog {
            clock,
            order: Mutex::new(()),
            recent: Mutex::new(Recent { from, events: VecDeque::new(), bytes: 0 }),
            recordings: RwLock::new(recordings),
            bytes: AtomicU64::new(0),
            uncounted: Mutex::new(newest.map(|newest| (Position::default(), newest))),
            readers: Readers::default(),
            is_shared,
            collected: None,
        })
    }

    /// The log of a transaction: it collects the events of what is recorded now.
    pub fn of_transaction(&self) -> EventLog {
        EventLog {
            clock: self.clock.clone(),
            order: Mutex::new(()),
            recent: Mutex::new(Recent { from: Position::default(), events: VecDeque::new(), bytes: 0 }),
            recordings: RwLock::new(self.recordings.read().clone()),
            bytes: AtomicU64::new(0),
            uncounted: Mutex::new(None),
            readers: Readers::default(),
            is_shared: self.is_shared,
            collected: Some(Mutex::default()),
        }
    }

    /// Takes what the log of a transaction has collected.
    pub fn take_collected(&self) -> Vec<Draft> {
        self.collected.as_ref().map_or_else(Vec::new, |collected| std::mem::take(&mut collected.lock()))
    }

    /// A snapshot, and a time such that it shows the commits up to then and no later one with events.
    pub fn snapshot(&self, engine: &dyn Engine) -> (Box<dyn Snapshot>, Timestamp) {
        let _ordered = self.order.lock();
        let now = self.clock.now();
        (engine.snapshot(), now)
    }

    /// Whether the changes of a collection are recorded.
    pub fn records(&self, name: &Namespace) -> bool {
        self.recordings.read().include(name)
    }

    /// Commits a batch with its events, and gives the commit its time.
    pub fn commit(&self, engine: &dyn Engine, batch: Batch, drafts: Vec<Draft>) -> Result<CommitId> {
        if let Some(collected) = &self.collected {
            let commit = engine.commit(batch)?;
            collected.lock().extend(drafts);
            return Ok(commit);
        }
        self.append(engine, batch, drafts, false)
    }

    /// Begins a commit as [`Engine::begin_commit`] does. Events have to be in order, so a commit with events has ended when
    /// this returns.
    pub fn begin_commit<'a>(&'a self, engine: &'a dyn Engine, batch: Batch, drafts: Vec<Draft>) -> Begun<'a> {
        if self.collected.is_some() || !drafts.is_empty() {
            return Begun::Ended(self.commit(engine, batch, drafts));
        }
        let ended = |outcome: diwan_kv::Result<CommitId>| {
            let commit = outcome?;
            self.clock.tick();
            Ok(commit)
        };
        match engine.begin_commit(batch) {
            BegunCommit::Ended(outcome) => Begun::Ended(ended(outcome)),
            BegunCommit::UnderWay(wait) => Begun::UnderWay(Box::new(move || ended(wait()))),
        }
    }

    /// Commits a transaction's batch with its events, all of which get the time of the commit.
    pub fn commit_together(
        &self,
        engine: &dyn Engine,
        batch: Batch,
        drafts: Vec<Draft>,
        origin: Option<&EventOrigin<'_>>,
    ) -> Result<CommitId> {
        let drafts = drafts.into_iter().map(|draft| draft.with_origin(origin)).collect();
        self.append(engine, batch, drafts, true)
    }

    fn append(
        &self,
        engine: &dyn Engine,
        mut batch: Batch,
        drafts: Vec<Draft>,
        is_transaction: bool,
    ) -> Result<CommitId> {
        if drafts.is_empty() {
            let commit = engine.commit(batch)?;
            self.clock.tick();
            return Ok(commit);
        }
        let ordered = self.order.lock();
        let mut events = Vec::with_capacity(drafts.len());
        let together = is_transaction.then(|| self.clock.tick());
        for (number, draft) in (0..).zip(drafts) {
            let position = match together {
                Some(time) => Position { time: time.to_bits(), number },
                None => Position { time: self.clock.tick().to_bits(), number: 0 },
            };
            let value = draft.into_value();
            batch.put(Space::Events, position.key().to_vec(), value.clone());
            events.push(Arc::new(Event::new(position, value)));
        }
        let commit = engine.commit(batch)?;
        self.readers.note(self.newest(), &events);
        self.recent.lock().push(&self.bytes, events);
        drop(ordered);
        self.readers.wake();
        Ok(commit)
    }

    /// The events after a position, oldest first: some of them if there are many.
    pub fn read(&self, engine: &dyn Engine, after: Position) -> Result<Vec<Arc<Event>>> {
        if let Some(recent) = self.recent.lock().after(after) {
            return Ok(recent);
        }
        let range = KeyRange { start: Bound::Excluded(after.key().to_vec().into()), end: Bound::Unbounded };
        let (mut events, mut bytes) = (Vec::new(), 0);
        let mut damaged = None;
        engine.snapshot().visit(Space::Events, range, &mut |key, value| {
            let Some(position) = Position::from_key(key) else {
                damaged = Some(Error::Damaged("a position in the log of events".to_owned()));
                return ControlFlow::Break(());
            };
            bytes += value.len();
            events.push(Arc::new(Event::new(position, value.to_vec())));
            let is_full = events.len() >= RUN_EVENTS || bytes >= RUN_BYTES;
            if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        damaged.map_or(Ok(events), Err)
    }

    /// From which time on every change in a scope is in the log. The scope is recorded.
    pub(super) fn recorded_since(&self, scope: &EventScope) -> Timestamp {
        let recordings = self.recordings.read();
        let kept = Timestamp::from_bits(recordings.header.trimmed.to_bits() + 1);
        recordings.since(scope).map_or(self.clock.now(), |since| since.max(kept))
    }

    /// The number by which the log's tokens are recognized.
    pub fn origin(&self) -> u32 {
        self.recordings.read().header.origin
    }

    /// The position of the newest event.
    pub fn newest(&self) -> Position {
        let recent = self.recent.lock();
        recent.events.back().map_or(recent.from, |event| event.position)
    }

    /// The position behind everything that is committed, if there are no events after `seen`. `None` also while a commit
    /// with events is under way.
    pub fn end(&self, seen: Position) -> Option<Position> {
        let _ordered = self.order.try_lock()?;
        (self.newest() <= seen).then(|| self.present().max(seen))
    }

    /// Behind every event that is committed, and before every event that is not. The clocks of other processes may be behind
    /// this one's, so where there are some the newest event tells, and not the clock.
    pub fn present(&self) -> Position {
        match self.is_shared {
            true => Position { number: u32::MAX, ..self.newest() },
            false => Position::after(self.clock.now()),
        }
    }

    /// Where a new stream of a recorded scope begins.
    pub fn start(&self, scope: &EventScope) -> Position {
        let since = self.recordings.read().since(scope).map_or(Position::default(), Position::before);
        self.present().max(since)
    }

    /// Takes over what other processes have appended, by the keys of the events.
    pub fn follow(&self, snapshot: &dyn Snapshot, keys: &[Bytes]) -> Result<()> {
        let from = self.newest();
        let mut keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        keys.sort_unstable();
        keys.retain(|key| Position::from_key(key).is_some_and(|position| position > from));
        let values = snapshot.get_many(Space::Events, &keys)?;
        let mut events = Vec::with_capacity(keys.len());
        for (key, value) in keys.iter().zip(values) {
            if let (Some(position), Some(value)) = (Position::from_key(key), value) {
                events.push(Arc::new(Event::new(position, value.to_vec())));
            }
        }
        let Some(newest) = events.last() else { return Ok(()) };
        self.clock.advance(newest.position.timestamp());
        self.readers.note(from, &events);
        self.recent.lock().push(&self.bytes, events);
        self.readers.wake();
        Ok(())
    }

    /// Forgets the newest events, because others may have been appended.
    pub fn reset(&self, snapshot: &dyn Snapshot) -> Result<()> {
        let newest = newest_stored(snapshot)?.unwrap_or_default();
        self.clock.advance(newest.timestamp());
        *self.recent.lock() = Recent { from: newest, events: VecDeque::new(), bytes: 0 };
        self.readers.note_unknown();
        self.readers.wake();
        Ok(())
    }

    /// Reads anew what is recorded. Returns whether it includes other collections than before.
    pub fn follow_recordings(&self, engine: &dyn Engine) -> Result<bool> {
        let header = Header::read(engine)?;
        let mut recordings = Recordings::read(engine, header)?;
        let mut current = self.recordings.write();
        recordings.keep_usage(&current);
        // Every event of this process from now on is in the scope's history.
        recordings
            .iter()
            .filter_map(|(_, recorded)| recorded.since)
            .for_each(|since| self.clock.advance(since));
        let has_changed = !recordings.have_the_scopes_of(&current);
        *current = Arc::new(recordings);
        Ok(has_changed)
    }

    /// Whether the log holds everything in the scope that happened after a position.
    pub fn holds(&self, scope: &EventScope, position: Position) -> bool {
        self.recordings.read().hold(scope, position)
    }
}

/// The position of the newest event that a snapshot has.
fn newest_stored(snapshot: &dyn Snapshot) -> Result<Option<Position>> {
    let newest = snapshot.scan(Space::Events, KeyRange::all(), Direction::Reverse).next();
    Ok(newest.transpose()?.and_then(|(key, _)| Position::from_key(&key)))
}

impl Recent {
    fn push(&mut self, total: &AtomicU64, events: Vec<Arc<Event>>) {
        for event in events {
            self.bytes += event.bytes();
            total.fetch_add(event.bytes() as u64, Ordering::Relaxed);
            self.events.push_back(event);
        }
        while self.bytes > RECENT_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.bytes();
            self.from = oldest.position;
        }
    }

    /// The events after a position; `None` if some of them are not in memory.
    fn after(&self, position: Position) -> Option<Vec<Arc<Event>>> {
        if position < self.from {
            return None;
        }
        let start = self.events.partition_point(|event| event.position <= position);
        let mut bytes = 0;
        let fits = |event: &&Arc<Event>| {
            bytes += event.bytes();
            bytes <= RUN_BYTES || bytes == event.bytes()
        };
        Some(self.events.iter().skip(start).take(RUN_EVENTS).take_while(fits).cloned().collect())
    }
}
