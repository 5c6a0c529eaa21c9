//! Room: whether the file system has enough of it left for what grows the store.
//!
//! A write that meets a full file system is lost for the whole engine: nobody knows what of it the disk holds, and nothing
//! may follow it. So commits that may grow the store are refused while a reserve is left. Deletions and upkeep go on and
//! make room again; they need the reserve, since a deletion is first written to the journal like all else.
//!
//! Required are the reserve, what memory holds and tables do not (it is written once more), and what a compaction writes
//! before it deletes what it read.
//!
//! The file system is asked now and then, and whenever memory has grown by a part of what was left. A commit otherwise
//! costs a comparison of two numbers.

use super::Core;
use crate::{Error, Result, Space};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Kept free unless another number is set: this many bytes, or a part of a small file system.
const RESERVE: u64 = 500_000_000;
const RESERVE_PART: u64 = 50;
/// As much as a compaction is taken to write at most before it deletes anything.
const COMPACTION: u64 = 256 << 20;
/// For how long an answer of the file system is believed while there is too little room.
const SHORT: Duration = Duration::from_millis(200);

pub(super) struct Room {
    /// `None`: the default. 0: nothing is refused.
    reserve: Option<u64>,
    is_short: AtomicBool,
    /// As long as memory holds no more than this, there is room.
    enough_up_to: AtomicU64,
    last: Mutex<Look>,
}

struct Look {
    at: Instant,
    available: u64,
    required: u64,
}

impl Room {
    pub fn new(reserve: Option<u64>) -> Self {
        let last = Look { at: Instant::now(), available: u64::MAX, required: 0 };
        Self {
            reserve,
            is_short: AtomicBool::new(false),
            enough_up_to: AtomicU64::new(0),
            last: Mutex::new(last),
        }
    }

    fn reserve(&self, total: u64) -> u64 {
        self.reserve.unwrap_or_else(|| RESERVE.min(total / RESERVE_PART))
    }

    /// Takes note of what the file system says; the answer for commits that grow the store.
    fn note(&self, last: &mut Look, now: Look, in_memory: u64) -> Result<()> {
        *last = now;
        let (available, required) = (last.available, last.required);
        let was_short = self.is_short.load(Ordering::Relaxed);
        // A little more than required ends the shortage, so that it does not begin and end all the time.
        let is_short = available < required.saturating_add(if was_short { required / 16 } else { 0 });
        self.is_short.store(is_short, Ordering::Relaxed);
        // What a commit adds to memory is in the journal as well, and so counts twice.
        let left = if is_short { 0 } else { available.saturating_sub(required) / 4 };
        self.enough_up_to.store(in_memory.saturating_add(left), Ordering::Relaxed);
        match (was_short, is_short) {
            (false, true) => tracing::error!(
                available,
                required,
                "the disk is almost full: writes are refused until there is room again, deletions go on"
            ),
            (true, false) => {
                tracing::info!(available, required, "there is room on the disk again: writes go on")
            }
            _ => {}
        }
        if is_short { Err(Error::OutOfSpace { available, required }) } else { Ok(()) }
    }

    pub fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }
}

impl Core {
    /// Refuses what may grow the store while there is too little room.
    pub(super) fn check_room(&self) -> Result<()> {
        let room = &self.room;
        if !room.is_short() && self.db.write_buffer_size() <= room.enough_up_to.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.look_for_room(if room.is_short() { SHORT } else { Duration::ZERO })
    }

    /// Asks the file system, unless the last answer is younger than `believed`.
    pub(super) fn look_for_room(&self, believed: Duration) -> Result<()> {
        let room = &self.room;
        if room.reserve == Some(0) {
            room.enough_up_to.store(u64::MAX, Ordering::Relaxed);
            return Ok(());
        }
        let mut last = room.last.lock();
        if last.at.elapsed() < believed {
            let (available, required) = (last.available, last.required);
            return if room.is_short() { Err(Error::OutOfSpace { available, required }) } else { Ok(()) };
        }
        let in_memory = self.db.write_buffer_size();
        // A file system that does not tell refuses for itself.
        let (available, total) = free_space(&self.path).unwrap_or((u64::MAX, 0));
        let tables = Space::ALL.into_iter().filter_map(|space| self.keyspaces.get(space));
        let compaction = tables.map(|tables| tables.disk_space()).max().unwrap_or(0).min(COMPACTION);
        let required = room.reserve(total).saturating_add(in_memory + compaction);
        room.note(&mut last, Look { at: Instant::now(), available, required }, in_memory)
    }
}

/// How many bytes are left to programs on the file system of a path, and how many it has in all.
#[cfg(target_os = "linux")]
pub(super) fn free_space(path: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some((bytes(found.f_bavail), bytes(found.f_blocks)))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn free_space(_path: &Path) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(room: &Room, available: u64, required: u64, in_memory: u64) -> Result<()> {
        room.note(&mut room.last.lock(), Look { at: Instant::now(), available, required }, in_memory)
    }

    #[test]
    fn a_shortage_ends_a_little_above_where_it_begins() {
        let room = Room::new(None);
        note(&room, 1000, 800, 70).unwrap();
        assert_eq!(room.enough_up_to.load(Ordering::Relaxed), 70 + 50);
        assert!(matches!(note(&room, 799, 800, 0), Err(Error::OutOfSpace { available: 799, required: 800 })));
        note(&room, 849, 800, 0).unwrap_err();
        note(&room, 850, 800, 0).unwrap();
        assert!(!room.is_short());
        note(&room, 800, 800, 0).unwrap();
    }

    #[test]
    fn the_reserve_is_a_part_of_small_file_systems() {
        let room = Room::new(None);
        assert_eq!(room.reserve(60 << 20), (60 << 20) / 50);
        assert_eq!(room.reserve(1 << 40), RESERVE);
        assert_eq!(Room::new(Some(7)).reserve(1 << 40), 7);
    }
}
