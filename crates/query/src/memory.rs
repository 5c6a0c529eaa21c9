//! The memory that running operations hold. The process has one pool, in which each operation reserves more as it grows.
//!
//! No operation waits for the pool. If the pool has no more memory, an operation spills to a temporary file, or fails where
//! files are forbidden. So operations that hold memory never block each other.
//!
//! A holder that can spill gets at most as much as stays free after it: the first may take half of the pool, the next one
//! a quarter, and so on. So a later holder still gets some memory.

use crate::error::{Error, code};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};

/// How much memory one sort or group may hold: 100 MiB, as in MongoDB.
pub const DEFAULT_MEMORY_LIMIT: usize = 100 << 20;

/// How much memory all operations of a process may hold: enough for one that needs MongoDB's whole limit and may not spill.
const POOL: usize = 128 << 20;

/// How much almost every holder may hold without a reservation. So small operations never use the pool, and a sort that gets
/// nothing from it still writes runs that are large enough to be merged.
const FREE: usize = 256 << 10;

/// A single value of at least so many bytes counts as large.
pub const LARGE: usize = 1 << 20;

/// Reservations grow in steps of this size.
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
    /// A pool of `limit` bytes.
    pub fn new(limit: usize) -> MemoryPool {
        MemoryPool { state: Arc::new(State { limit, held: AtomicUsize::new(0) }) }
    }

    /// The pool that all operations of this process share.
    pub fn shared() -> MemoryPool {
        static SHARED: LazyLock<MemoryPool> = LazyLock::new(|| MemoryPool::new(POOL));
        SHARED.clone()
    }

    /// How many bytes are reserved.
    pub fn held(&self) -> usize {
        self.state.held.load(Ordering::Relaxed)
    }

    /// Whether more than three quarters are reserved. Holders that can spill should then do so.
    pub fn is_scarce(&self) -> bool {
        self.held() > self.state.limit / 4 * 3
    }

    /// An empty reservation. `can_spill`: the holder continues in a file when it gets no more memory.
    pub fn reservation(&self, can_spill: bool) -> Reservation {
        Reservation { pool: self.clone(), bytes: 0, free: FREE, can_spill }
    }

    /// An empty reservation for one of very many holders that can spill. The pool counts every byte of it.
    pub fn exact_reservation(&self) -> Reservation {
        Reservation { pool: self.clone(), bytes: 0, free: 0, can_spill: true }
    }
}

/// The memory that one holder has reserved in a pool. Dropping it releases the memory.
#[derive(Debug)]
pub struct Reservation {
    pool: MemoryPool,
    bytes: usize,
    /// How much the holder may hold in addition, without a reservation.
    free: usize,
    can_spill: bool,
}

impl Reservation {
    /// Reserves what is missing to hold `bytes`. Returns false, and reserves nothing more, if the pool does not have enough.
    #[inline]
    pub fn cover(&mut self, bytes: usize) -> bool {
        bytes <= self.free + self.bytes || self.reserve(bytes - self.free)
    }

    #[cold]
    fn reserve(&mut self, bytes: usize) -> bool {
        let Some(wanted) = bytes.checked_next_multiple_of(STEP) else { return false };
        let State { limit, held } = &*self.pool.state;
        let (own, can_spill) = (self.bytes, self.can_spill);
        let reserved = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            let after = (held - own).checked_add(wanted)?;
            let free = limit.checked_sub(after)?;
            (!can_spill || wanted <= free).then_some(after)
        });
        if reserved.is_ok() {
            self.bytes = wanted;
        }
        reserved.is_ok()
    }

    /// Reserves memory for work whose parts may be smaller or larger: `most` bytes, halved until the pool has enough. Returns
    /// the size of a part, which is `least` even if the pool has nothing.
    pub fn cover_part(&mut self, most: usize, least: usize) -> usize {
        let mut part = most;
        while part > least && !self.cover(part) {
            part /= 2;
        }
        part.max(least)
    }

    /// Releases the whole reservation.
    pub fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.pool.state.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How much the holder may hold without a further reservation.
    pub fn allowed(&self) -> usize {
        self.free + self.bytes
    }

    /// See [`MemoryPool::is_scarce`].
    pub fn is_scarce(&self) -> bool {
        self.pool.is_scarce()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

/// Limits how many bytes of large values are in work at once. Further work waits for its turn.
///
/// Unlike a [pool](MemoryPool), a gate makes its callers wait. A caller that has entered waits for no other gate and for no
/// client, so it leaves soon.
#[derive(Debug)]
pub struct Gate {
    limit: usize,
    held: Mutex<usize>,
    released: Condvar,
}

impl Gate {
    /// A gate for `limit` bytes.
    pub const fn new(limit: usize) -> Gate {
        Gate { limit, held: Mutex::new(0), released: Condvar::new() }
    }

    /// Waits until there is room for `bytes`; work that exceeds the limit waits until the gate is empty. Work on values that
    /// are not [`LARGE`] enters at once and is not counted.
    pub fn enter(&self, bytes: usize) -> Option<Pass<'_>> {
        if bytes < LARGE {
            return None;
        }
        let bytes = bytes.min(self.limit);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while *held + bytes > self.limit {
            held = self.released.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        *held += bytes;
        Some(Pass { gate: self, bytes })
    }
}

/// Permission to work on large values. Dropping it lets others enter.
#[derive(Debug)]
pub struct Pass<'a> {
    gate: &'a Gate,
    bytes: usize,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        *self.gate.held.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.gate.released.notify_all();
    }
}

/// How much memory an operation may use, and where it continues when that is used up.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    /// The most bytes that one stage may hold.
    pub limit: usize,
    /// The directory for temporary files. `None`: the operation may not use the disk (`allowDiskUse: false`).
    pub directory: Option<PathBuf>,
    /// The pool that it shares with all other operations.
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

    /// An empty reservation for one stage.
    pub fn reservation(&self) -> Reservation {
        self.pool.reservation(self.directory.is_some())
    }

    /// The error of a sort that needs the disk but may not use it.
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
    fn dropping_a_reservation_releases_its_memory() {
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
    fn a_gate_admits_no_more_than_its_limit_at_once() {
        let gate = Gate::new(8 * MIB);
        assert!(gate.enter(LARGE - 1).is_none());
        let (within, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for n in 0..32 {
                let (gate, within, most) = (&gate, &within, &most);
                scope.spawn(move || {
                    // Work that is larger than the gate enters alone.
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
    fn holders_that_can_spill_leave_memory_for_the_next() {
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
