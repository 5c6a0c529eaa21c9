//! Settling: flushing all memtables to tables, so that the journals can be released.
//!
//! fjall flushes a space's memtable when it is full, and removes a journal once all its contents are in tables. So a
//! space that is seldom written keeps journals alive, and the newest journal stays in any case. When no commit has come for
//! a while, or the journals have grown, settling flushes all spaces and releases the journals' disk space. That
//! bounds how much the next start has to replay.
//!
//! Commits continue meanwhile. Only the part of the journals that was synced before the flush began is released. Its writes
//! were applied to the memtables under the journal's lock, and fjall seals a memtable for a flush under the same lock.

use super::Core;
use super::read::guarded;
use super::room;
use crate::ticker::Ticker;
use crate::{CommitId, Result, Space};
use fjall::{AbstractTree, Keyspace, PersistMode};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Journals of fewer bytes wait for [`LONG_IDLE`] ticks, so that a trickle of writes does not become a trickle of tables.
const SMALL: u64 = 256 << 10;
/// Journals of more bytes do not wait. Each settling adds a table to every space. A lower limit adds more tables, so that
/// compaction rewrites the first level of an index more often. A higher limit takes more memory and makes a replay longer.
const LARGE: u64 = 32 << 20;
const TICK: Duration = Duration::from_millis(250);
const IDLE: u32 = 4;
const LONG_IDLE: u32 = 40;

impl Core {
    pub fn settle(&self) -> Result<()> {
        let _alone = self.settling.lock();
        self.writable()?;
        self.syncer.wait(self.syncer.last_completed())?;
        let point = self.syncer.synced();
        for space in Space::ALL {
            self.keyspaces.get(space).map_or(Ok(()), |keyspace| self.flush(keyspace))?;
        }
        self.syncer.release(point)
    }

    /// Compacts the spaces for which there is enough free disk space. Deleted pairs take space until a compaction drops them,
    /// and while the disk is almost full, no writes cause a compaction.
    fn reclaim(&self) -> Result<()> {
        let _alone = self.settling.lock();
        for keyspace in Space::ALL.into_iter().filter_map(|space| self.keyspaces.get(space)) {
            let available = room::free_space(&self.path).map_or(0, |(available, _)| available);
            // A compaction writes neither a deletion nor the pair that it hides. Half of the free space is left for others.
            let (pairs, deletions) =
                (keyspace.tree.approximate_len() as u64, keyspace.tree.tombstone_count());
            let rest = pairs.saturating_sub(2 * deletions) as f64 / pairs.max(1) as f64;
            if deletions > 0 && keyspace.disk_space() as f64 * rest < available as f64 / 2.0 {
                guarded(|| keyspace.major_compact()).map_err(|e| self.poisoned_by(e))?;
            }
        }
        Ok(())
    }

    /// Flushes the current memtable of a keyspace to tables.
    pub(super) fn flush(&self, keyspace: &Keyspace) -> Result<()> {
        let Some(newest) = keyspace.tree.get_highest_memtable_seqno() else { return Ok(()) };
        guarded(|| keyspace.rotate_memtable()).map_err(|e| self.poisoned_by(e))?;
        let flushed = || {
            let persisted = keyspace.tree.get_highest_persisted_seqno();
            keyspace.tree.sealed_memtable_count() == 0 || persisted.is_some_and(|seqno| seqno >= newest)
        };
        while !flushed() {
            // fjall reports a failed flush here. Otherwise this loop would not end.
            guarded(|| self.db.persist(PersistMode::Buffer)).map_err(|e| self.poisoned_by(e))?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// Settles when idle, until the returned ticker is dropped.
pub(super) fn in_background(core: &Arc<Core>) -> Result<Ticker> {
    let core = Arc::downgrade(core);
    let (mut idle, mut last, mut reclaimed) = (0, None, None);
    Ticker::start("kv-settle", TICK, move || {
        tick(&core, &mut idle, &mut last, &mut reclaimed).then_some(TICK)
    })
}

/// Settles if no commit has come for long enough. Returns false to end the ticker.
fn tick(
    core: &Weak<Core>,
    idle: &mut u32,
    last: &mut Option<CommitId>,
    reclaimed: &mut Option<CommitId>,
) -> bool {
    let Some(core) = core.upgrade() else { return false };
    let now = Some(core.syncer.last_completed());
    *idle = if now == *last { idle.saturating_add(1) } else { 0 };
    *last = now;
    // This reports a failure of fjall's own threads before the next write.
    let alive = || guarded(|| core.db.persist(PersistMode::Buffer)).map_err(|e| core.poisoned_by(e));
    if core.writable().and_then(|()| alive()).is_err() {
        return false;
    }
    let _ = core.look_for_room(TICK / 2);
    let due = match core.syncer.held() {
        0 => false,
        // The journals take disk space that a flush releases.
        _ if core.room.is_short() => true,
        1..SMALL => *idle >= LONG_IDLE,
        SMALL..LARGE => *idle >= IDLE,
        _ => true,
    };
    // The engine logs a failure and refuses all further writes.
    if due && core.settle().is_err() {
        return false;
    }
    if core.room.is_short() && *idle >= IDLE && *reclaimed != now {
        *reclaimed = now;
        return core.reclaim().is_ok();
    }
    true
}
