//! The numbers under which keys of collections and indexes lie: which is free, and whose keys are to be deleted.

use crate::error::Result;
use crate::store::Shared;
use parking_lot::Mutex;

/// What is known of the numbers.
pub(crate) struct Numbers {
    /// The next free number. Its lock is the catalog's.
    pub next: Mutex<u32>,
    /// Numbers of dropped collections and indexes whose keys are still there.
    dropped: Mutex<Vec<u32>>,
    /// Numbers of indexes that are being filled: should one be dropped, its keys are deleted afterwards.
    filling: Mutex<Vec<u32>>,
}

impl Numbers {
    pub fn new(next: u32) -> Numbers {
        Numbers { next: Mutex::new(next), dropped: Mutex::default(), filling: Mutex::default() }
    }
}

impl Shared {
    /// A number that none had before. It counts as dropped until a header or entry names it, so that a kill in between
    /// leaves nothing behind.
    pub fn next_number(&self) -> Result<u32> {
        let mut batch = self.catalog_batch();
        let number = batch.allocate();
        batch.mark_dropped(&[number]);
        batch.commit()?;
        Ok(number)
    }

    /// Has the keys under these numbers deleted in the background; that they are dropped is noted already.
    pub fn delete_later(&self, numbers: Vec<u32>) {
        self.numbers.dropped.lock().extend(numbers);
    }

    /// One number whose keys are to be deleted.
    pub fn take_dropped(&self) -> Option<u32> {
        let mut dropped = self.numbers.dropped.lock();
        let filling = self.numbers.filling.lock();
        let at = dropped.iter().rposition(|number| !filling.contains(number))?;
        Some(dropped.swap_remove(at))
    }

    /// Puts off the deletion of what lies under these numbers until what is returned is dropped.
    pub fn fill(&self, numbers: &[u32]) -> Filling<'_> {
        self.numbers.filling.lock().extend(numbers);
        Filling { shared: self, numbers: numbers.to_vec() }
    }
}

/// Indexes that are being filled.
pub(crate) struct Filling<'a> {
    shared: &'a Shared,
    numbers: Vec<u32>,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.shared.numbers.filling.lock().retain(|number| !self.numbers.contains(number));
    }
}
