//! Settling: moving what memory and journals hold into tables, so that the journals can go.
//!
//! fjall flushes a space's memory when it is full and removes a journal once all that it holds is in tables; a
//! space that is seldom written thereby keeps journals alive, and the newest journal stays in any case. So when
//! no commit has come for a while, or the journals have grown, everything is flushed and the journals' space is
//! released. That bounds what the next start has to replay.
//!
//! Commits go on meanwhile: what is released is what was synced before the flush began. It was applied to memory
//! under the journal's lock, and fjall sets memory aside for a flush under the same lock.

use super::Core;
use super::read::guarded;
use crate::ticker::Ticker;
use crate::{Result, Space};
use fjall::{AbstractTree, Keyspace, PersistMode};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Less than this waits for [`LONG_IDLE`] ticks, so that a trickle of writes does not become a trickle of tables.
const SMALL: u64 = 256 << 10;
/// More than this waits for nothing.
const LARGE: u64 = 16 << 20;
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

    /// Moves what is in a keyspace's memory now into tables.
    pub(super) fn flush(&self, keyspace: &Keyspace) -> Result<()> {
        let Some(newest) = keyspace.tree.get_highest_memtable_seqno() else { return Ok(()) };
        guarded(|| keyspace.rotate_memtable()).map_err(|e| self.poisoned_by(e))?;
        let flushed = || {
            let persisted = keyspace.tree.get_highest_persisted_seqno();
            keyspace.tree.sealed_memtable_count() == 0 || persisted.is_some_and(|seqno| seqno >= newest)
        };
        while !flushed() {
            // If a flush failed, fjall says so here, and the memory would stay for ever.
            guarded(|| self.db.persist(PersistMode::Buffer)).map_err(|e| self.poisoned_by(e))?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// Settles when idle from now on, until what is returned is dropped.
pub(super) fn in_background(core: &Arc<Core>) -> Result<Ticker> {
    let core = Arc::downgrade(core);
    let (mut idle, mut last) = (0, None);
    Ticker::start("kv-settle", TICK, move || tick(&core, &mut idle, &mut last).then_some(TICK))
}

/// Looks whether commits have come, and settles when none have for long enough; false when there is no more to do.
fn tick(core: &Weak<Core>, idle: &mut u32, last: &mut Option<crate::CommitId>) -> bool {
    let Some(core) = core.upgrade() else { return false };
    let now = Some(core.syncer.last_completed());
    *idle = if now == *last { idle.saturating_add(1) } else { 0 };
    *last = now;
    let due = match core.syncer.held() {
        0 => false,
        1..SMALL => *idle >= LONG_IDLE,
        SMALL..LARGE => *idle >= IDLE,
        _ => true,
    };
    if due && let Err(error) = core.settle() {
        tracing::warn!(%error, "settling the store");
        return false;
    }
    true
}
