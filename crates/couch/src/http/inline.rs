//! Limits how many quick handlers run in the tasks of their connections.
//!
//! Switching to another thread costs more than most of these handlers. But they may wait for a lock or a disk read,
//! and the runtime's workers also serve all other connections, so at least one worker is always kept free. When the
//! limit is reached, a quick handler runs on a blocking thread like any other.

use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Counts the runtime workers that are running handlers.
#[derive(Default)]
pub struct Inline {
    busy: AtomicUsize,
    limit: AtomicUsize,
}

/// A permit to run a handler on a worker.
pub struct Place<'a>(&'a Inline);

impl Inline {
    /// Sets the limit to all workers of the runtime but one. Until then no permits are given.
    pub fn open(&self, runtime: &Handle) {
        let workers = match runtime.runtime_flavor() {
            RuntimeFlavor::MultiThread => runtime.metrics().num_workers(),
            _ => 0,
        };
        self.limit.store(workers.saturating_sub(1), Ordering::Relaxed);
    }

    /// Returns a permit if one is free.
    pub fn enter(&self) -> Option<Place<'_>> {
        let place = Place(self);
        let before = self.busy.fetch_add(1, Ordering::Relaxed);
        (before < self.limit.load(Ordering::Relaxed)).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs long work. In a task of the runtime, the worker first hands its other tasks to another thread.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::Builder;

    #[test]
    fn enter_leaves_one_worker_free() {
        let inline = Inline::default();
        assert!(inline.enter().is_none());
        let runtime = Builder::new_multi_thread().worker_threads(3).build().unwrap();
        inline.open(runtime.handle());
        let places = [inline.enter(), inline.enter()];
        assert!(places.iter().all(Option::is_some) && inline.enter().is_none());
        drop(places);
        assert!(inline.enter().is_some());
        inline.open(Builder::new_current_thread().build().unwrap().handle());
        assert!(inline.enter().is_none());
    }

    #[test]
    fn blocking_works_in_and_outside_runtimes() {
        assert_eq!(blocking(|| 1), 1);
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        {
            let _entered = runtime.enter();
            assert_eq!(blocking(|| 2), 2);
        }
        let of_threads = [runtime.spawn(async { blocking(|| 3) }), runtime.spawn_blocking(|| blocking(|| 4))];
        for (task, expected) in of_threads.into_iter().zip(3..) {
            assert_eq!(runtime.block_on(task).unwrap(), expected);
        }
        let single = Builder::new_current_thread().build().unwrap();
        assert_eq!(single.block_on(async { blocking(|| 5) }), 5);
    }
}
