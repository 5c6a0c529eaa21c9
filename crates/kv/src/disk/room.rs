//! Room: whether the file system has enough free space for writes that grow the store.
//!
//! A write that fails on a full file system stops the whole engine: it is unknown which part of it is on disk, so nothing
//! may be written after it. So commits that may grow the store, and ingestion, are refused while a reserve is still
//! free. Deletions and upkeep go on and free space; they need the reserve, since a deletion is first written to the
//! journal, too.
//!
//! The required free space is the reserve, the size of memory that is not flushed yet (it will be written once more),
//! and the bytes that a compaction writes before it deletes its inputs.
//!
//! The file system is asked from time to time, and whenever memory has grown by a part of the free space. Otherwise a
//! commit costs one comparison of two numbers.

use super::Core;
use crate::{Error, Result, Space};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The default reserve: this many bytes, or a part of a small file system.
const RESERVE: u64 = 500_000_000;
const RESERVE_PART: u64 = 50;
/// The most bytes that a compaction is assumed to write before it deletes anything.
const COMPACTION: u64 = 256 << 20;
/// How long an answer of the file system is used while there is too little room.
const SHORT: Duration = Duration::from_millis(200);

pub(super) struct Room {
    /// `None`: the default. 0: nothing is refused.
    reserve: Option<u64>,
    is_short: AtomicBool,
    /// There is room as long as memory holds no more bytes than this.
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

    /// Notes the file system's answer, and returns whether commits that grow the store are refused.
    fn note(&self, last: &mut Look, now: Look, in_memory: u64) -> Result<()> {
        *last = now;
        let (available, required) = (last.available, last.required);
        let was_short = self.is_short.load(Ordering::Relaxed);
        // A shortage ends only at a little more than required, so that it does not begin and end all the time.
        let is_short = available < required.saturating_add(if was_short { required / 16 } else { 0 });
        self.is_short.store(is_short, Ordering::Relaxed);
        // The bytes that a commit adds to memory are in the journal as well, so they count twice.
        let left = if is_short { 0 } else { available.saturating_sub(required) / 4 };
        self.enough_up_to.store(in_memory.saturating_add(left), Ordering::Relaxed);
        match (was_short, is_short) {
            (false, true) => tracing::error!(
                available,
                required,
                "the disk is almost full: writes are refused until space is free again, deletions go on"
            ),
            (true, false) => {
                tracing::info!(available, required, "the disk has enough free space again: writes go on")
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
    /// Refuses writes that may grow the store while there is too little room.
    pub(super) fn check_room(&self) -> Result<()> {
        let room = &self.room;
        if !room.is_short() && self.db.write_buffer_size() <= room.enough_up_to.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.look_for_room(if room.is_short() { SHORT } else { Duration::ZERO })
    }

    /// Asks the file system, unless its last answer is younger than `believed`.
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
        // A file system that does not answer reports an error when it is full.
        let (available, total) = free_space(&self.path).unwrap_or((u64::MAX, 0));
        let tables = Space::ALL.into_iter().filter_map(|space| self.keyspaces.get(space));
        let compaction = tables.map(|tables| tables.disk_space()).max().unwrap_or(0).min(COMPACTION);
        let required = room.reserve(total).saturating_add(in_memory + compaction);
        room.note(&mut last, Look { at: Instant::now(), available, required }, in_memory)
    }
}

/// How many bytes are free for programs on the file system of a path, and its size.
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
