//! Beginning and ending to record the changes of a scope.

use super::recordings::{Recorded, Recordings, StreamLease};
use super::scope::EventScope;
use crate::clock;
use crate::collection::{Collection, Schema};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::store::{Entry, Shared, Store};
use diwan_kv::Batch;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

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

/// The stored time of a scope's last use is at most this much too early, or a twentieth of the retention.
const USE_IS_NOTED_EVERY: i64 = 60_000;

impl Store {
    /// Records the changes in a scope. When this returns, every later change is in the log.
    pub(super) fn record(&self, scope: &EventScope) -> Result<StreamLease> {
        self.shared.evaluate_several(|| self.try_record(scope))
    }

    fn try_record(&self, scope: &EventScope) -> Result<StreamLease> {
        let events = &self.shared.events;
        if let Some(lease) = events.recordings.read().lease(scope) {
            return Ok(lease);
        }
        let _turn = self.shared.change_schema();
        // Another stream on the scope may have been opened meanwhile.
        if let Some(lease) = events.recordings.read().lease(scope) {
            return Ok(lease);
        }
        events.recordings.read().check_room()?;
        // What a wider scope records is in the log already.
        let known = events.recordings.read().since(scope);
        let begun = Recorded::begin();
        self.shared.store_scope(scope, begun.clone())?;
        let is_meant = |name: &Namespace| scope.contains(&name.database, &name.collection);
        self.shared.mark_recorded(self.entries(), is_meant);
        // Writes that began before their collection was marked have ended by now, and got earlier times.
        let since = Some(known.unwrap_or_else(|| events.clock.tick()));
        self.shared.store_scope(scope, Recorded { since, ..begun })?;
        let lease = events.recordings.read().lease(scope);
        lease.ok_or_else(|| Error::Damaged("the list of recorded changes".to_owned()))
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

    /// Stores a scope. The caller has the turn of schema changes.
    fn store_scope(&self, scope: &EventScope, recorded: Recorded) -> Result<()> {
        let mut batch = Batch::new();
        batch.take_reserve();
        Recordings::put(scope, &recorded, &mut batch);
        self.events.recordings.read().put_header(&mut batch);
        self.engine.commit(batch)?;
        Arc::make_mut(&mut self.events.recordings.write()).set(scope.clone(), recorded);
        Ok(())
    }

    /// Tells the collections with a name that is meant whether they record. When this returns, no write to them is under way
    /// that does otherwise.
    pub(crate) fn mark_recorded(
        &self,
        entries: &RwLock<BTreeMap<Namespace, Entry>>,
        is_meant: impl Fn(&Namespace) -> bool,
    ) {
        // Closing a write gate may take long: the list of all collections is free meanwhile.
        let meant: Vec<Arc<Collection>> = entries
            .read()
            .iter()
            .filter(|(name, _)| is_meant(name))
            .filter_map(|(_, entry)| match entry {
                Entry::Collection(collection) => Some(collection.clone()),
                Entry::View(_) => None,
            })
            .collect();
        for collection in meant {
            let mut stopped = collection.stop_writes();
            let recorded = self.events.records(&collection.namespace());
            if stopped.schema().recorded != recorded {
                stopped.publish(Schema { recorded, ..stopped.schema().clone() });
            }
        }
    }

    /// Notes when scopes were used last, and ends those that no stream has used for the time of the retention.
    pub(super) fn renew_recordings(&self, entries: &RwLock<BTreeMap<Namespace, Entry>>) -> Result<()> {
        self.evaluate(|| self.try_renew_recordings(entries))
    }

    fn try_renew_recordings(&self, entries: &RwLock<BTreeMap<Namespace, Entry>>) -> Result<()> {
        let (now, retention) = (clock::now_millis(), self.retention().millis);
        let noted_every = USE_IS_NOTED_EVERY.min(retention / 20);
        let is_over = |recorded: &Recorded| recorded.usage.last(now) + retention <= now;
        let is_due =
            |recorded: &Recorded| is_over(recorded) || recorded.usage.last(now) - recorded.used > noted_every;
        if !self.events.recordings.read().iter().any(|(_, recorded)| is_due(recorded)) {
            return Ok(());
        }
        let _turn = self.change_schema();
        let mut batch = Batch::new();
        batch.take_reserve();
        let mut ended = Vec::new();
        {
            // Under this lock no stream opens a scope that is about to end.
            let mut current = self.events.recordings.write();
            let mut changed = current.clone();
            let recordings = Arc::make_mut(&mut changed);
            let due: Vec<(EventScope, Recorded)> = recordings
                .iter()
                .filter(|(_, recorded)| is_due(recorded))
                .map(|(scope, recorded)| (scope.clone(), recorded.clone()))
                .collect();
            for (scope, recorded) in due {
                if is_over(&recorded) && !recorded.usage.is_open() && self.leads() {
                    Recordings::delete(&scope, &mut batch);
                    recordings.remove(&scope);
                    ended.push(scope);
                } else {
                    let recorded = Recorded { used: recorded.usage.last(now), ..recorded };
                    Recordings::put(&scope, &recorded, &mut batch);
                    recordings.set(scope, recorded);
                }
            }
            self.engine.commit(batch)?;
            *current = changed;
        }
        if ended.is_empty() {
            return Ok(());
        }
        let is_meant =
            |name: &Namespace| ended.iter().any(|scope| scope.contains(&name.database, &name.collection));
        self.mark_recorded(entries, is_meant);
        Ok(())
    }
}
