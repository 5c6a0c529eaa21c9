//! Beginning and ending to record changes, and deleting old events.

use super::log::EventLog;
use super::position::Position;
use super::scope::{EventScope, Recorded, Recordings};
use crate::clock;
use crate::collection::{Collection, Schema};
use crate::error::{Error, Result};
use crate::keys::Key;
use crate::namespace::Namespace;
use crate::store::{Entry, Shared, Store};
use diwan_kv::{Batch, Direction, Engine, KeyRange, Space};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How long events are kept, and how many bytes of them.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// The age at which events are deleted, in milliseconds. A scope without streams is recorded for this long.
    pub millis: i64,
    /// The bytes beyond which the oldest events are deleted.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { millis: 24 * 3_600_000, bytes: 1_000_000_000 }
    }
}

/// An open stream. Its scope is recorded as long as this exists.
pub struct StreamLease {
    shared: Arc<Shared>,
    scope: EventScope,
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        let mut recordings = self.shared.events.recordings.write();
        if let Some(recorded) = recordings.scopes.iter_mut().find(|recorded| recorded.scope == self.scope) {
            recorded.open = recorded.open.saturating_sub(1);
        }
    }
}

impl Store {
    /// Records the changes in a scope. When this returns, every later change is in the log.
    pub(super) fn record(&self, scope: &EventScope) -> Result<StreamLease> {
        let events = &self.shared.events;
        let until = clock::now_millis() + self.shared.retention().millis;
        let lease = || StreamLease { shared: self.shared.clone(), scope: scope.clone() };
        {
            let mut recordings = events.recordings.write();
            if let Some(recorded) = recordings.scopes.iter_mut().find(|recorded| recorded.scope == *scope) {
                recorded.open += 1;
                return Ok(lease());
            }
        }
        let _turn = self.shared.change_schema();
        let mut changed = events.recordings.read().clone();
        match changed.scopes.iter_mut().find(|recorded| recorded.scope == *scope) {
            Some(recorded) => recorded.open += 1,
            None => {
                // Changes that are recorded already for a wider scope are in the log.
                let known = changed.scopes.iter().filter(|recorded| recorded.scope.covers(scope));
                let known = known.map(|recorded| recorded.since).min();
                let since = known.unwrap_or_else(|| events.clock.tick());
                changed.scopes.push(Recorded { scope: scope.clone(), since, until, open: 1 });
            }
        }
        self.shared.publish_recordings(changed, &self.collections_in(scope))?;
        let mut recordings = events.recordings.write();
        let began = events.clock.tick();
        // Writes that began before their collection was marked have ended by now, and were not recorded.
        if let Some(recorded) = recordings.scopes.iter_mut().find(|recorded| recorded.scope == *scope)
            && recorded.since.to_bits() + 1 >= began.to_bits().saturating_sub(1)
        {
            recorded.since = began;
        }
        drop(recordings);
        Ok(lease())
    }

    fn collections_in(&self, scope: &EventScope) -> Vec<Arc<Collection>> {
        let mut found = Vec::new();
        self.each_entry(None, &mut |name, entry| {
            if let Entry::Collection(collection) = entry
                && scope.contains(&name.database, &name.collection)
            {
                found.push(collection.clone());
            }
        });
        found
    }

    /// Sets how long events are kept.
    pub fn set_retention(&self, retention: Retention) {
        *self.shared.retention.write() = retention;
    }

    /// Records every change from now on, whoever asks for it.
    pub fn record_everything(&self) -> Result<()> {
        // The lease is kept for ever: the scope stays open.
        self.record(&EventScope::Everything).map(std::mem::forget)
    }
}

impl Shared {
    pub(super) fn retention(&self) -> Retention {
        *self.retention.read()
    }

    /// Stores what is recorded, and marks or unmarks the collections concerned. The caller has the turn of schema changes.
    fn publish_recordings(&self, recordings: Recordings, collections: &[Arc<Collection>]) -> Result<()> {
        let mut batch = Batch::new();
        batch.take_reserve();
        batch.put(Space::Meta, Key::Recordings.bytes(), recordings.encode().into_bytes());
        self.engine.commit(batch)?;
        *self.events.recordings.write() = recordings;
        for collection in collections {
            let mut stopped = collection.stop_writes();
            let recorded = self.events.records(&collection.namespace());
            if stopped.schema().recorded != recorded {
                stopped.publish(Schema { recorded, ..stopped.schema().clone() });
            }
        }
        Ok(())
    }
}

/// Ends recordings that nobody wants any more, and deletes events that are too old or too many. Returns whether all is done.
pub(crate) fn trim(
    shared: &Shared,
    entries: &parking_lot::RwLock<BTreeMap<Namespace, Entry>>,
    is_over: &dyn Fn() -> bool,
) -> Result<bool> {
    let log = &shared.events;
    if log.recordings.read().scopes.is_empty() {
        return Ok(true);
    }
    let (now, retention) = (clock::now_millis(), shared.retention());
    renew(shared, entries, now, retention)?;
    log.count_older(shared.engine.as_ref())?;
    let oldest = (now - retention.millis).max(0) as u64 / 1000;
    let by_age = Position { time: oldest << 32, number: 0 };
    let end = match log.recordings.read().scopes.is_empty() {
        true => Position { time: u64::MAX, number: u32::MAX },
        false => by_age.max(beyond_size(log, shared.engine.as_ref(), retention.bytes)?),
    };
    let range = KeyRange { start: Bound::Unbounded, end: Bound::Excluded(end.key().to_vec().into()) };
    let first = shared.engine.snapshot().scan(Space::Events, range.clone(), Direction::Forward).next();
    if first.transpose()?.is_none() || is_over() {
        return Ok(true);
    }
    // The mark is stored before anything is deleted, so that no stream resumes in a gap.
    let turn = shared.change_schema();
    let mut recordings = log.recordings.read().clone();
    recordings.trimmed = recordings.trimmed.max(end.timestamp().min(log.clock.now()));
    shared.publish_recordings(recordings, &[])?;
    drop(turn);
    let mut bytes = 0;
    shared.engine.snapshot().visit(Space::Events, range.clone(), &mut |_, value| {
        bytes += value.len() as u64;
        ControlFlow::Continue(())
    })?;
    shared.engine.delete_range(Space::Events, range)?;
    let _ = log.bytes.update(Ordering::Relaxed, Ordering::Relaxed, |total| total.saturating_sub(bytes));
    Ok(true)
}

/// Renews the time of scopes with open streams, and ends those whose time is over.
fn renew(
    shared: &Shared,
    entries: &parking_lot::RwLock<BTreeMap<Namespace, Entry>>,
    now: i64,
    retention: Retention,
) -> Result<()> {
    let is_open = |recorded: &Recorded| recorded.open > 0;
    let is_due = |recorded: &Recorded| match is_open(recorded) {
        true => recorded.until < now + retention.millis / 2,
        false => recorded.until <= now,
    };
    if !shared.events.recordings.read().scopes.iter().any(is_due) {
        return Ok(());
    }
    let _turn = shared.change_schema();
    let mut recordings = shared.events.recordings.read().clone();
    let mut concerned = Vec::new();
    recordings.scopes.retain_mut(|recorded| {
        if is_open(recorded) {
            recorded.until = now + retention.millis;
        } else if recorded.until <= now {
            concerned.push(recorded.scope.clone());
            return false;
        }
        true
    });
    let collections: Vec<Arc<Collection>> = entries
        .read()
        .iter()
        .filter(|(name, _)| concerned.iter().any(|scope| scope.contains(&name.database, &name.collection)))
        .filter_map(|(_, entry)| match entry {
            Entry::Collection(collection) => Some(collection.clone()),
            Entry::View(_) => None,
        })
        .collect();
    shared.publish_recordings(recordings, &collections)
}

/// The position before which events have to go because there are too many bytes.
fn beyond_size(log: &EventLog, engine: &dyn Engine, most: u64) -> Result<Position> {
    let total = log.bytes.load(Ordering::Relaxed);
    // Some more than necessary, so that not every event makes work.
    let Some(mut excess) = total.checked_sub(most).filter(|excess| *excess > 0) else {
        return Ok(Position::default());
    };
    excess += most / 10;
    let mut end = Position::default();
    let mut is_damaged = false;
    engine.snapshot().visit(Space::Events, KeyRange::all(), &mut |key, value| {
        match Position::from_key(key) {
            Some(position) => end = position,
            None => is_damaged = true,
        }
        excess = excess.saturating_sub(value.len() as u64);
        if excess == 0 || is_damaged { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    match is_damaged {
        true => Err(Error::Damaged("a position in the log of events".to_owned())),
        false => Ok(end),
    }
}
