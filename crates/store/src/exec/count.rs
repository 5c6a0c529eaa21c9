//! Counting the matches of a filter without an index: all cores scan, each its part of the keys.

use crate::collection::ReadView;
use crate::error::{Error, Result};
use crate::plan::{Access, Plan};
use crate::{keys, record};
use diwan_kv::{KeyRange, Space};
use diwan_query::Interrupt;
use diwan_query::filter::Filter;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;

/// Below so many documents one thread is as fast.
const PARALLEL_FROM: u64 = 20_000;
/// How many parts each thread gets on average: enough that none waits long for the slowest.
const PARTS_PER_THREAD: usize = 8;
/// How many documents pass between two looks at the interrupt.
const TICKS: u64 = 1024;

/// How many documents of a full scan match; `None` if the plan is not a full scan.
pub fn count_matches(view: &ReadView, plan: &Plan, interrupt: &Interrupt) -> Result<Option<u64>> {
    let Access::Collection { ids, .. } = &plan.access else { return Ok(None) };
    let prefix = keys::collection_prefix(view.collection().id);
    let ranges: Vec<KeyRange> = ids.as_slice().iter().map(|one| one.range(&prefix)).collect();
    let threads = cores();
    if threads == 1 || view.collection().count() < PARALLEL_FROM {
        let mut total = 0;
        for range in ranges {
            total += count_range(view, &plan.filter, range, interrupt)?;
        }
        return Ok(Some(total));
    }
    let mut parts = Vec::new();
    for range in ranges {
        parts.extend(view.snapshot().split(Space::Records, range, threads * PARTS_PER_THREAD)?);
    }
    let (next, total) = (AtomicUsize::new(0), AtomicU64::new(0));
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..threads.min(parts.len()) {
            scope.spawn(|| {
                while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match count_range(view, &plan.filter, part.clone(), interrupt) {
                        Ok(count) => {
                            total.fetch_add(count, Ordering::Relaxed);
                        }
                        Err(error) => {
                            next.store(parts.len(), Ordering::Relaxed);
                            if let Ok(mut failure) = failure.lock() {
                                failure.get_or_insert(error);
                            }
                        }
                    }
                }
            });
        }
    });
    match failure.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(Some(total.into_inner())),
    }
}

/// How many cores this process may use. Asked once: the answer takes reading several files.
pub fn cores() -> usize {
    static CORES: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));
    *CORES
}

/// The inner loop: one range, forward.
fn count_range(view: &ReadView, filter: &Filter, range: KeyRange, interrupt: &Interrupt) -> Result<u64> {
    let (mut count, mut seen) = (0, 0);
    let mut failure: Option<Error> = None;
    view.snapshot().visit(Space::Records, range, &mut |key, value| {
        seen += 1;
        let matched = match record::document(value) {
            None => Err(Error::Damaged(keys::describe(Space::Records, key))),
            Some(doc) => filter.matches(doc).map_err(Error::from),
        };
        let stop = if seen % TICKS == 0 { interrupt.check().map_err(Error::from) } else { Ok(()) };
        match matched.and_then(|matched| stop.map(|()| matched)) {
            Ok(matched) => {
                count += u64::from(matched);
                ControlFlow::Continue(())
            }
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failure.map_or(Ok(count), Err)
}
