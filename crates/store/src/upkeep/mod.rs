//! The work of one background thread. It deletes the keys of dropped collections and indexes, and unused blobs. It removes
//! expired documents, tombstones, bodies of revisions and results of retryable writes.
//!
//! Each kind of work is a [task](schedule). A task reads only expired entries and works in slices of time. Where possible, a
//! failure affects one collection only.

mod bodies;
mod collections;
mod documents;
mod dropped;
mod schedule;

use crate::Namespace;
use crate::blob;
use crate::clock;
use crate::collection::Collection;
use crate::error::Result;
use crate::events;
use crate::keys::CollectionId;
use crate::replica::Applying;
use crate::store::{Entry, Shared};
use collections::EachCollection;
use parking_lot::{Condvar, Mutex, RwLock};
use schedule::{Progress, Schedule, Slice, Task};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread checks whether a task is due.
const TICK: Duration = Duration::from_secs(1);
/// How often expired tombstones, bodies of revisions and results of retryable writes are removed.
const EXPIRY_EVERY: Duration = Duration::from_secs(300);

/// How often events of change streams are checked against their retention.
const TRIM_EVERY: Duration = Duration::from_secs(5);

/// The collections and views of the store.
type Entries = Arc<RwLock<BTreeMap<Namespace, Entry>>>;

struct Control {
    ttl_seconds: AtomicU64,
    /// Whether the thread must end.
    stopped: AtomicBool,
    /// Held while the thread decides whether to wait, so that it cannot miss a stop.
    waiting: Mutex<()>,
    changed: Condvar,
}

/// The store's handle of the upkeep thread.
pub(crate) struct Upkeep {
    control: Arc<Control>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Upkeep {
    pub fn start(shared: Arc<Shared>, entries: Entries) -> Upkeep {
        let control = Arc::new(Control {
            ttl_seconds: AtomicU64::new(60),
            stopped: AtomicBool::new(false),
            waiting: Mutex::new(()),
            changed: Condvar::new(),
        });
        let own = control.clone();
        let thread = std::thread::Builder::new()
            .name("diwan-upkeep".to_owned())
            .spawn(move || own.run(&shared, tasks(&shared, &entries, &own)));
        if let Err(error) = &thread {
            tracing::error!(%error, "cannot start the upkeep thread: nothing expires until the server is restarted");
        }
        Upkeep { control, thread: Mutex::new(thread.ok()) }
    }

    pub fn wake(&self) {
        self.control.changed.notify_all();
    }

    pub fn set_ttl_interval(&self, seconds: u64) {
        self.control.ttl_seconds.store(seconds.max(1), Ordering::Relaxed);
        self.wake();
    }

    pub fn stop(&self) {
        {
            let _waiting = self.control.waiting.lock();
            self.control.stopped.store(true, Ordering::Relaxed);
        }
        self.wake();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the upkeep thread panicked");
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Control {
    fn run(&self, shared: &Shared, tasks: Vec<Box<dyn Task>>) {
        // What clients see of a follower, its primary changes. The rest is its own work.
        let _applying = Applying::begin();
        let mut schedule = Schedule::new(tasks, Instant::now());
        let mut progress = Progress::Done;
        loop {
            {
                let mut waiting = self.waiting.lock();
                if progress == Progress::Done && !self.stopped.load(Ordering::Relaxed) {
                    self.changed.wait_for(&mut waiting, TICK);
                }
                if self.stopped.load(Ordering::Relaxed) {
                    return;
                }
            }
            progress = schedule.round(Instant::now(), shared.leads(), &self.stopped);
        }
    }
}

/// All tasks.
fn tasks(shared: &Arc<Shared>, entries: &Entries, control: &Arc<Control>) -> Vec<Box<dyn Task>> {
    let ttl = control.clone();
    vec![
        Box::new(dropped::DeleteDropped::new(shared.clone(), entries.clone())),
        Box::new(SweepBlobs { shared: shared.clone() }),
        Box::new(EachCollection::new(
            "expiring documents",
            entries.clone(),
            move || Duration::from_secs(ttl.ttl_seconds.load(Ordering::Relaxed)),
            documents::has_ttl_index,
            documents::expire,
        )),
        Box::new(EachCollection::new(
            "expiring tombstones",
            entries.clone(),
            || EXPIRY_EVERY,
            Collection::has_expiring_tombstones,
            |collection, slice| {
                let done = collection.expire_tombstones(clock::now_seconds(), &|| slice.is_over())?;
                Ok(if done { Progress::Done } else { Progress::More })
            },
        )),
        Box::new(bodies::ExpireBodies::new(shared.clone(), entries.clone())),
        Box::new(ExpireRetries { shared: shared.clone() }),
        Box::new(TrimEvents { shared: shared.clone(), entries: entries.clone() }),
    ]
}

/// The collections of the store by their numbers.
fn by_number(entries: &Entries) -> HashMap<CollectionId, Arc<Collection>> {
    let entries = entries.read();
    let collections = entries.values().filter_map(|entry| match entry {
        Entry::Collection(collection) => Some((collection.id, collection.clone())),
        Entry::View(_) => None,
    });
    collections.collect()
}

struct SweepBlobs {
    shared: Arc<Shared>,
}

impl Task for SweepBlobs {
    fn name(&self) -> &'static str {
        "sweeping blobs"
    }

    fn interval(&self) -> Duration {
        TICK
    }

    fn work(&mut self, slice: &Slice<'_>) -> Result<Progress> {
        let done = blob::sweep(&self.shared, || slice.is_over())?;
        Ok(if done { Progress::Done } else { Progress::More })
    }
}

struct TrimEvents {
    shared: Arc<Shared>,
    entries: Entries,
}

impl Task for TrimEvents {
    fn name(&self) -> &'static str {
        "trimming events"
    }

    fn is_for_each_process(&self) -> bool {
        // Each notes which streams it has open.
        true
    }

    fn interval(&self) -> Duration {
        TRIM_EVERY
    }

    fn work(&mut self, slice: &Slice<'_>) -> Result<Progress> {
        let done = events::trim(&self.shared, &self.entries, &|| slice.is_over())?;
        Ok(if done { Progress::Done } else { Progress::More })
    }
}

struct ExpireRetries {
    shared: Arc<Shared>,
}

impl Task for ExpireRetries {
    fn name(&self) -> &'static str {
        "expiring retryable writes"
    }

    fn interval(&self) -> Duration {
        EXPIRY_EVERY
    }

    fn work(&mut self, slice: &Slice<'_>) -> Result<Progress> {
        let engine = self.shared.engine.as_ref();
        let done = self.shared.retries.expire(engine, clock::now_seconds(), &|| slice.is_over())?;
        Ok(if done { Progress::Done } else { Progress::More })
    }
}
