//! Deleting old events.

use super::clock::NOTED_EVERY_SECONDS;
use super::log::EventLog;
use super::position::Position;
use super::recordings::Header;
use crate::clock;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::store::{Entry, Shared};
use diwan_kv::{Batch, Engine, KeyRange, Space};
use diwan_value::Timestamp;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most events that are deleted in one go, but for those of a single time.
const MOST_EVENTS: usize = 20_000;

/// Ends recordings that nobody wants any more, and deletes events that are too old or too many. Returns whether all is done.
pub(crate) fn trim(
    shared: &Shared,
    entries: &RwLock<BTreeMap<Namespace, Entry>>,
    is_over: &dyn Fn() -> bool,
) -> Result<bool> {
    let log = &shared.events;
    shared.renew_recordings(entries)?;
    if !shared.leads() {
        return Ok(true);
    }
    note_clock(shared)?;
    if !log.count_older(shared.engine.as_ref(), is_over)? {
        return Ok(false);
    }
    let Some(due) = find_due(shared, is_over)? else { return Ok(true) };
    // The mark is stored before anything is deleted, so that no stream continues in a gap.
    set_header(shared, |header| header.trimmed = header.trimmed.max(due.time))?;
    let end = Bound::Included(Position::after(due.time).key().to_vec().into());
    shared.engine.delete_range(Space::Events, KeyRange { start: Bound::Unbounded, end })?;
    let _ = log.bytes.update(Ordering::Relaxed, Ordering::Relaxed, |total| total.saturating_sub(due.bytes));
    Ok(!due.is_part)
}

/// Events that have to go.
struct Due {
    /// The time of the last of them. All events of one time go together: they may be a transaction's.
    time: Timestamp,
    bytes: u64,
    /// Whether there are more.
    is_part: bool,
}

/// Finds events from the front of the log that are too old, too many, or wanted by nobody.
fn find_due(shared: &Shared, is_over: &dyn Fn() -> bool) -> Result<Option<Due>> {
    let (log, retention) = (&shared.events, shared.retention());
    let are_wanted = !log.recordings.read().is_empty();
    let oldest =
        Timestamp { seconds: ((clock::now_millis() - retention.millis).max(0) / 1000) as u32, increment: 0 };
    // Some more than necessary, so that not every event makes work.
    let total = log.bytes.load(Ordering::Relaxed);
    let excess = if total > retention.bytes { total - retention.bytes + retention.bytes / 10 } else { 0 };
    let mut due: Option<Due> = None;
    let mut count = 0;
    let mut is_damaged = false;
    let front = Position::after(log.recordings.read().header.trimmed);
    let range = KeyRange { start: Bound::Excluded(front.key().to_vec().into()), end: Bound::Unbounded };
    shared.engine.snapshot().visit(Space::Events, range, &mut |key, value| {
        let Some(position) = Position::from_key(key) else {
            is_damaged = true;
            return ControlFlow::Break(());
        };
        let time = position.timestamp();
        let freed = due.as_ref().map_or(0, |due| due.bytes);
        if due.as_ref().is_none_or(|due| due.time != time) {
            if are_wanted && time >= oldest && freed >= excess {
                return ControlFlow::Break(());
            }
            if let Some(due) = due.as_mut().filter(|_| count >= MOST_EVENTS || is_over()) {
                due.is_part = true;
                return ControlFlow::Break(());
            }
        }
        count += 1;
        due = Some(Due { time, bytes: freed + value.len() as u64, is_part: false });
        ControlFlow::Continue(())
    })?;
    if is_damaged {
        return Err(Error::Damaged("a position in the log of events".to_owned()));
    }
    Ok(due)
}

/// Notes the clock's time, so that a start with a wall clock that was set back does not give out times twice.
fn note_clock(shared: &Shared) -> Result<()> {
    let log = &shared.events;
    let recordings = log.recordings.read().clone();
    let now = log.clock.now();
    let has_moved = now.seconds >= recordings.header.clock.seconds.saturating_add(NOTED_EVERY_SECONDS);
    if recordings.is_empty() || !has_moved {
        return Ok(());
    }
    set_header(shared, |header| header.clock = now)
}

fn set_header(shared: &Shared, change: impl Fn(&mut Header)) -> Result<()> {
    shared.evaluate(|| try_set_header(shared, &change))
}

fn try_set_header(shared: &Shared, change: impl Fn(&mut Header)) -> Result<()> {
    let _turn = shared.change_schema();
    let mut recordings = shared.events.recordings.read().clone();
    let changed = Arc::make_mut(&mut recordings);
    change(&mut changed.header);
    let mut batch = Batch::new();
    batch.take_reserve();
    changed.put_header(&mut batch);
    shared.engine.commit(batch)?;
    // Only who has the turn replaces the list.
    *shared.events.recordings.write() = recordings;
    Ok(())
}

impl EventLog {
    /// Counts the bytes of the events that were there when the log was opened. Returns whether all are counted.
    fn count_older(&self, engine: &dyn Engine, is_over: &dyn Fn() -> bool) -> Result<bool> {
        let mut uncounted = self.uncounted.lock();
        let Some((from, newest)) = *uncounted else { return Ok(true) };
        let mut reached = None;
        let range = KeyRange {
            start: Bound::Excluded(from.key().to_vec().into()),
            end: Bound::Included(newest.key().to_vec().into()),
        };
        let mut bytes = 0;
        engine.snapshot().visit(Space::Events, range, &mut |key, value| {
            bytes += value.len() as u64;
            match Position::from_key(key).filter(|_| is_over()) {
                Some(position) => {
                    reached = Some((position, newest));
                    ControlFlow::Break(())
                }
                None => ControlFlow::Continue(()),
            }
        })?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        *uncounted = reached;
        Ok(reached.is_none())
    }
}
