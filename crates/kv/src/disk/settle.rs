//! Settling: moving what memory and journals hold into tables, so that the journals can go.
//!
//! fjall flushes a space's memory when it is full and removes a journal once all that it holds is in tables; a
//! space that is seldom written thereby keeps journals alive, and the newest journal stays in any case. When no
//! commit has come for a while, everything is flushed and the journals' space is released.

use super::Core;
use super::read::guarded;
use crate::{Error, Result};
use fjall::{AbstractTree, PersistMode};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Flushing less than this waits for [`LONG_IDLE`] ticks, so that a trickle of writes does not become a trickle
/// of tables.
const SMALL: u64 = 256 << 10;
const TICK: Duration = Duration::from_millis(500);
const IDLE: u32 = 2;
const LONG_IDLE: u32 = 20;

impl Core {
    pub fn settle(&self) -> Result<()> {
        self.writable()?;
        self.flush()?;
        let _alone = self.gate.write();
        self.flush()?;
        self.syncer.release_journals()
    }

    fn flush(&self) -> Result<()> {
        let full = self.keyspaces.iter().filter(|keyspace| !keyspace.tree.active_memtable().is_empty());
        for keyspace in full {
            guarded(|| keyspace.rotate_memtable()).map_err(|e| self.poisoned_by(e))?;
        }
        while self.keyspaces.iter().any(|keyspace| keyspace.tree.sealed_memtable_count() > 0) {
            // If a flush failed, fjall says so here, and the memtable would stay for ever.
            guarded(|| self.db.persist(PersistMode::Buffer)).map_err(|e| self.poisoned_by(e))?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn unsettled_bytes(&self) -> u64 {
        self.keyspaces.iter().map(|keyspace| keyspace.tree.active_memtable().size()).sum()
    }
}

/// The thread that settles when idle; dropping the handle ends it.
pub(super) struct Settler {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Settler {
    pub fn start(core: &Arc<Core>) -> Result<Self> {
        let (stop, stopped) = channel();
        let core = Arc::downgrade(core);
        let run = move || {
            let mut idle = 0;
            let mut last = None;
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                if !tick(&core, &mut idle, &mut last) {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("kv-settle".into()).spawn(run);
        let thread = thread.map_err(|e| Error::io("starting the settling thread", e))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Settler {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Looks whether commits have come, and settles when none have for long enough; false when there is no more to do.
fn tick(core: &Weak<Core>, idle: &mut u32, last: &mut Option<crate::CommitId>) -> bool {
    let Some(core) = core.upgrade() else { return false };
    let now = Some(core.syncer.last_completed());
    *idle = if now == *last { idle.saturating_add(1) } else { 0 };
    *last = now;
    let unsettled = core.unsettled_bytes();
    let due = match unsettled {
        0 => false,
        1..SMALL => *idle >= LONG_IDLE,
        _ => *idle >= IDLE,
    };
    if due && let Err(error) = core.settle() {
        tracing::warn!(%error, "settling the store");
        return false;
    }
    true
}
