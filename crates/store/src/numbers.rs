//! The numbers that prefix the keys of collections and indexes: the next free one, and those whose keys are to be
//! deleted.

use crate::error::{Error, Result};
use crate::keys::{self, read_number};
use crate::replica::Applying;
use crate::store::Shared;
use diwan_kv::{Direction, KeyRange, Snapshot, Space};
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// For so long another process may read what was dropped: it may not have heard of it yet.
const READ_ELSEWHERE: Duration = Duration::from_secs(60);

/// The state of the numbers in memory.
pub(crate) struct Numbers {
    /// The next free number. Its lock is the catalog's lock.
    pub next: Mutex<u32>,
    /// Numbers of dropped collections and indexes whose keys still exist, and from when on they may be deleted.
    dropped: Mutex<Vec<(Instant, u32)>>,
    /// Numbers of indexes that builds write to. If such an index is dropped, its keys are deleted after the build has
    /// ended.
    filling: Mutex<Vec<u32>>,
}

impl Numbers {
    pub fn new(next: u32) -> Numbers {
        Numbers { next: Mutex::new(next), dropped: Mutex::default(), filling: Mutex::default() }
    }
}

/// The mark of a number whose keys are to be deleted, or that a process has reserved.
pub(crate) struct NumberMark {
    pub number: u32,
    /// The process that has reserved it.
    pub process: Option<u32>,
}

/// All marks of numbers.
pub(crate) fn marks(snapshot: &dyn Snapshot) -> Result<Vec<NumberMark>> {
    let prefix = keys::dropped_prefix();
    let pairs = snapshot.scan(Space::Meta, KeyRange::prefix(prefix), Direction::Forward);
    pairs
        .map(|pair| {
            let (key, value) = pair?;
            let read = |bytes: &[u8]| read_number(bytes).and_then(|(number, _)| u32::try_from(number).ok());
            let number = read(&key[prefix.len()..]);
            let number = number.ok_or_else(|| Error::Damaged("a dropped number".into()))?;
            Ok(NumberMark { number, process: read(&value) })
        })
        .collect()
}

impl Shared {
    /// Allocates a number. It is marked as dropped until the caller stores a header that names it, so that its keys are
    /// deleted at the next start if the process is killed in between.
    pub fn next_number(&self) -> Result<u32> {
        // For view indexes and temporary keys, which a follower has, too.
        let _applying = Applying::begin();
        self.evaluate(|| {
            let mut batch = self.catalog_batch();
            let number = batch.allocate()?;
            batch.mark_reserved(&[number]);
            batch.commit()?;
            Ok(number)
        })
    }

    /// Schedules the deletion of the keys under these numbers. The caller has marked them as dropped.
    pub fn delete_later(&self, numbers: Vec<u32>) {
        let wait = if self.has_peers() { READ_ELSEWHERE } else { Duration::ZERO };
        let due = Instant::now() + wait;
        self.numbers.dropped.lock().extend(numbers.into_iter().map(|number| (due, number)));
    }

    /// Goes on with the deletion of a number's keys before all others.
    pub fn delete_next(&self, number: u32) {
        self.numbers.dropped.lock().push((Instant::now(), number));
    }

    /// Puts numbers whose keys could not be deleted behind all others.
    pub fn delete_last(&self, numbers: Vec<u32>) {
        let now = Instant::now();
        self.numbers.dropped.lock().splice(0..0, numbers.into_iter().map(|number| (now, number)));
    }

    /// Takes a number whose keys are to be deleted.
    pub fn take_dropped(&self) -> Option<u32> {
        let mut dropped = self.numbers.dropped.lock();
        let filling = self.numbers.filling.lock();
        let now = Instant::now();
        let is_ready = |(due, number): &(Instant, u32)| *due <= now && !filling.contains(number);
        let at = dropped.iter().rposition(is_ready)?;
        Some(dropped.swap_remove(at).1)
    }

    /// Defers the deletion of keys under these numbers until the returned guard is dropped.
    pub fn fill(&self, numbers: &[u32]) -> Filling<'_> {
        self.numbers.filling.lock().extend(numbers);
        Filling { shared: self, numbers: numbers.to_vec() }
    }
}

/// A guard for indexes that a build writes to: the upkeep does not delete their keys meanwhile.
pub(crate) struct Filling<'a> {
    shared: &'a Shared,
    numbers: Vec<u32>,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.shared.numbers.filling.lock().retain(|number| !self.numbers.contains(number));
    }
}
