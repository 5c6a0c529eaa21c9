//! Runs the parts of one task on all cores.

use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::sync::LazyLock;
use std::thread;

/// Below this number of documents one thread is as fast.
pub(super) const PARALLEL_FROM: u64 = 20_000;

/// How many cores this process may use. Computed once, since the system reads several files for it.
pub fn cores() -> usize {
    static CORES: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));
    *CORES
}

/// Runs `work` for each part. Parts are started in their order. After a failure no further part is started, and the
/// first error is returned.
pub(crate) fn on_all_cores<T>(
    mut parts: impl ExactSizeIterator<Item = T> + Send,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let threads = cores().min(parts.len());
    if threads <= 1 {
        return parts.try_for_each(work);
    }
    let parts = Mutex::new(Some(parts));
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let next = || parts.lock().as_mut()?.next();
    let take_part = || {
        while let Some(part) = next() {
            if let Err(error) = work(part) {
                *parts.lock() = None;
                failure.lock().get_or_insert(error);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If no thread can be started, the others do its work.
            drop(thread::Builder::new().name("diwan-scan".to_owned()).spawn_scoped(scope, take_part));
        }
        take_part();
    });
    failure.into_inner().map_or(Ok(()), Err)
}
