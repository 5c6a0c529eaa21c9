//! The memory that running operations hold: one pool for the process, from which each operation draws as it grows.
//!
//! Nobody waits for the pool. An operation that gets no more of it writes what it holds to a temporary file, or, where
//! files are forbidden, is refused. So operations that hold memory never block each other.
//!
//! A holder that can go on in a file gets at most as much as is left free after it: one that runs alone may take half of
//! the pool, the next one a quarter, and the last one that comes still finds something.

use crate::error::{Error, code};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};

/// What one sort or group may hold in memory: 100 MiB, as MongoDB allows.
pub const DEFAULT_MEMORY_LIMIT: usize = 100 << 20;

/// What all operations of a process may hold together: room for one that uses MongoDB's limit up and may not use files.
const POOL: usize = 128 << 20;

/// What almost every holder has without asking: small operations never touch the pool, and a sort that gets nothing of it still
/// writes runs of a size that can be merged.
const FREE: usize = 256 << 10;

/// From so many bytes on a single value counts as large.
pub const LARGE: usize = 1 << 20;

/// The pool is drawn from in steps of this size.
const STEP: usize = 64 << 10;

/// Memory that operations share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryPool {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    held: AtomicUsize,
}

impl MemoryPool {
    /// A pool of so many bytes.
    pub fn new(limit: usize) -> MemoryPool {
        MemoryPool { state: Arc::new(State { limit, held: AtomicUsize::new(0) }) }
    }

    /// The pool that all operations of this process share.
    pub fn shared() -> MemoryPool {
        static SHARED: LazyLock<MemoryPool> = LazyLock::new(|| MemoryPool::new(POOL));
        SHARED.clone()
    }

    /// How many bytes are drawn.
    pub fn held(&self) -> usize {
        self.state.held.load(Ordering::Relaxed)
    }

    /// Whether so much is drawn that whoever can do without memory should give it back.
    pub fn is_scarce(&self) -> bool {
        self.held() > self.state.limit / 4 * 3
    }

    /// A reservation of nothing yet. `can_spill`: the holder goes on in a file when it gets no more.
    pub fn reservation(&self, can_spill: bool) -> Reservation {
        Reservation { pool: self.clone(), bytes: 0, free: FREE, can_spill }
    }

    /// A reservation of nothing yet, of which every byte counts, for one of very many holders that can spill.
    pub fn exact_reservation(&self) -> Reservation {
        Reservation { pool: self.clone(), bytes: 0, free: 0, can_spill: true }
    }
}

/// What one holder has drawn from a pool; given back when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    pool: MemoryPool,
    bytes: usize,
    /// What may be held beside that.
    free: usize,
    can_spill: bool,
}

impl Reservation {
    /// Draws what is missing to hold `bytes`. False if the pool has not enough; then nothing more is drawn.
    #[inline]
    pub fn cover(&mut self, bytes: usize) -> bool {
        bytes <= self.free + self.bytes || self.draw(bytes - self.free)
    }

    #[cold]
    fn draw(&mut self, bytes: usize) -> bool {
        let Some(wanted) = bytes.checked_next_multiple_of(STEP) else { return false };
        let State { limit, held } = &*self.pool.state;
        let (own, can_spill) = (self.bytes, self.can_spill);
        let drawn = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            let after = (held - own).checked_add(wanted)?;
            let free = limit.checked_sub(after)?;
            (!can_spill || wanted <= free).then_some(after)
        });
        if drawn.is_ok() {
            self.bytes = wanted;
        }
        drawn.is_ok()
    }

    /// Draws for work that can be done in smaller or larger parts: `most` bytes, or half as much as often as it takes, but
    /// not less than `least`. Returns how much.
    pub fn cover_part(&mut self, most: usize, least: usize) -> usize {
        let mut part = most;
        while part > least && !self.cover(part) {
            part /= 2;
        }
        part.max(least)
    }

    /// Gives everything back.
    pub fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.pool.state.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// What may be held without asking again.
    pub fn allowed(&self) -> usize {
        self.free + self.bytes
    }

    /// Whether the pool is scarce.
    pub fn is_scarce(&self) -> bool {
        self.pool.is_scarce()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

/// Admits work on large values one after another, so that those under way hold no more than so many bytes together.
///
/// Unlike a [pool](MemoryPool), a gate is waited for. Whoever is within waits for no other gate and no client, so it
/// leaves soon.
#[derive(Debug)]
pub struct Gate {
    limit: usize,
    held: Mutex<usize>,
    left: Condvar,
}

impl Gate {
    /// A gate for so many bytes.
    pub const fn new(limit: usize) -> Gate {
        Gate { limit, held: Mutex::new(0), left: Condvar::new() }
    }

    /// Waits until there is room for `bytes`, or for as much as the gate admits at all. Small work is not counted.
    pub fn enter(&self, bytes: usize) -> Option<Pass<'_>> {
        if bytes < LARGE {
            return None;
        }
        let bytes = bytes.min(self.limit);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while *held + bytes > self.limit {
            held = self.left.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        *held += bytes;
        Some(Pass { gate: self, bytes })
    }
}

/// Leave to work on large values, which ends when it is dropped.
#[derive(Debug)]
pub struct Pass<'a> {
    gate: &'a Gate,
    bytes: usize,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        *self.gate.held.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.gate.left.notify_all();
    }
}

/// How much memory an operation may use, and where it may go on when that is used up.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    /// The most bytes that one stage holds.
    pub limit: usize,
    /// Where temporary files may be made; `None` refuses to use the disk (`allowDiskUse: false`).
    pub directory: Option<PathBuf>,
    /// What it shares with all other operations.
    pub pool: MemoryPool,
}

impl Default for MemoryBudget {
    fn default() -> MemoryBudget {
        MemoryBudget { limit: DEFAULT_MEMORY_LIMIT, directory: None, pool: MemoryPool::shared() }
    }
}

impl MemoryBudget {
    /// The usual limits, with temporary files in this directory.
    pub fn in_directory(directory: Option<PathBuf>) -> MemoryBudget {
        MemoryBudget { directory, ..MemoryBudget::default() }
    }

    /// A reservation for one stage, of nothing yet.
    pub fn reservation(&self) -> Reservation {
        self.pool.reservation(self.directory.is_some())
    }

    /// The error of a sort that would need the disk.
    pub(crate) fn sort_error(&self) -> Error {
        Error::new(
            code::QUERY_EXCEEDED_MEMORY_LIMIT,
            format!(
                "Sort exceeded memory limit of {} bytes, but did not opt in to external sorting. Aborting \
                 operation. Pass allowDiskUse:true to opt in.",
                self.limit
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn dropping_a_reservation_gives_its_memory_back() {
        let pool = MemoryPool::new(8 * MIB);
        let mut reservation = pool.reservation(false);
        assert!(reservation.cover(FREE));
        assert_eq!(pool.held(), 0);
        assert!(reservation.cover(7 * MIB) && reservation.cover(MIB));
        assert_eq!(pool.held(), 7 * MIB - FREE);
        assert!(pool.is_scarce());
        reservation.release();
        assert!(reservation.cover(2 * MIB));
        drop(reservation);
        assert_eq!(pool.held(), 0);
    }

    #[test]
    fn a_gate_admits_no_more_than_its_bytes_at_once() {
        let gate = Gate::new(8 * MIB);
        assert!(gate.enter(LARGE - 1).is_none());
        let (within, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for n in 0..32 {
                let (gate, within, most) = (&gate, &within, &most);
                scope.spawn(move || {
                    // One that is larger than the gate goes through alone.
                    let bytes = if n == 7 { 100 * MIB } else { (n % 4 + 1) * MIB };
                    let pass = gate.enter(bytes);
                    let counted = bytes.min(8 * MIB);
                    most.fetch_max(within.fetch_add(counted, Ordering::SeqCst) + counted, Ordering::SeqCst);
                    within.fetch_sub(counted, Ordering::SeqCst);
                    drop(pass);
                });
            }
        });
        assert!(most.into_inner() <= 8 * MIB);
        assert_eq!(*gate.held.lock().unwrap(), 0);
    }

    #[test]
    fn a_pool_never_gives_more_than_it_has() {
        let pool = MemoryPool::new(4 * MIB);
        let (mut one, mut other) = (pool.reservation(false), pool.reservation(false));
        assert!(one.cover(3 * MIB));
        assert!(!other.cover(2 * MIB));
        assert!(!other.cover(usize::MAX));
        assert_eq!(other.allowed(), FREE);
        assert!(other.cover(MIB));
    }

    #[test]
    fn holders_that_can_spill_leave_something_for_the_next() {
        let pool = MemoryPool::new(16 * MIB);
        assert_eq!(pool.reservation(true).cover_part(8 * MIB, MIB), 8 * MIB);
        let mut all = Vec::new();
        for _ in 0..6 {
            let mut reservation = pool.reservation(true);
            let mut most = 0;
            while reservation.cover(most + STEP) {
                most += STEP;
            }
            all.push((reservation, most));
        }
        assert!(all.iter().all(|(_, most)| *most > FREE), "{all:?}");
        assert_eq!(pool.reservation(true).cover_part(8 * MIB, MIB), MIB);
        assert!(all[0].1 >= 8 * MIB && all[0].1 <= 8 * MIB + FREE, "{all:?}");
    }
}
