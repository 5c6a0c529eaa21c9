//! Quick handlers run in the task of their connection, without a thread of their own.
//!
//! A thread switch costs more than most of these handlers do. They may still have to wait, for a lock or for the disk to
//! read, and the runtime's workers also serve all other connections: so at least one worker is always left to them. Where
//! no more may be taken, a handler runs on a thread that may block, like those that are not quick.

use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::{Handle, RuntimeFlavor};

/// How many workers of the runtime run handlers.
#[derive(Default)]
pub struct Inline {
    busy: AtomicUsize,
    limit: AtomicUsize,
}

/// A worker that may run a handler.
pub struct Place<'a>(&'a Inline);

impl Inline {
    /// Takes all workers of this runtime but one. Before that, there are no places.
    pub fn open(&self, runtime: &Handle) {
        let workers = match runtime.runtime_flavor() {
            RuntimeFlavor::MultiThread => runtime.metrics().num_workers(),
            _ => 0,
        };
        self.limit.store(workers.saturating_sub(1), Ordering::Relaxed);
    }

    /// A place, if one is free.
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

/// Does what may take long. In a task of the runtime its worker hands everything else over first.
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
    fn one_worker_is_left() {
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
    fn blocking_is_right_everywhere() {
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
