//! What one thread does in the background: deleting the keys of dropped collections and indexes, and blobs that nobody
//! needs; expiring documents, tombstones and remembered results; noting sizes.

use crate::blob;
use crate::clock;
use crate::collection::{Collection, Edit, WriteOptions};
use crate::error::{Error, Result};
use crate::keys::{self, CollectionId, IndexId, Key};
use crate::retry::RetryTable;
use crate::store::{Entry, Shared};
use crate::{Index, Namespace, Record};
use diwan_kv::{Batch, Bytes, KeyRange, Space};
use diwan_value::{Value, key};
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread looks around.
const TICK: Duration = Duration::from_secs(1);
/// How often sizes are noted, and remembered results and tombstones are looked through.
const SIZES_EVERY: Duration = Duration::from_secs(10);
const EXPIRY_EVERY: Duration = Duration::from_secs(300);
/// For how long bodies of superseded revisions are kept, unless the collection is compacted.
const KEEP_BODIES_SECONDS: u64 = 24 * 60 * 60;
/// How many documents one batch expires.
const BATCH: usize = 128;

struct Work {
    shared: Arc<Shared>,
    entries: Arc<RwLock<BTreeMap<Namespace, Entry>>>,
    retries: Arc<RetryTable>,
    ttl_seconds: AtomicU64,
    /// Whether the thread must end.
    stopped: Mutex<bool>,
    changed: Condvar,
    /// What was noted last of each collection, to write only what is new.
    noted: Mutex<BTreeMap<CollectionId, Vec<u8>>>,
}

/// The thread, as its store holds it.
pub(crate) struct Upkeep {
    work: Arc<Work>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Upkeep {
    pub fn start(
        shared: Arc<Shared>,
        entries: Arc<RwLock<BTreeMap<Namespace, Entry>>>,
        retries: Arc<RetryTable>,
    ) -> Upkeep {
        let work = Arc::new(Work {
            shared,
            entries,
            retries,
            ttl_seconds: AtomicU64::new(60),
            stopped: Mutex::new(false),
            changed: Condvar::new(),
            noted: Mutex::default(),
        });
        let own = work.clone();
        let thread = std::thread::Builder::new().name("diwan-upkeep".to_owned()).spawn(move || own.run());
        if let Err(error) = &thread {
            tracing::error!(%error, "no thread for upkeep: nothing expires until the server is restarted");
        }
        Upkeep { work, thread: Mutex::new(thread.ok()) }
    }

    pub fn wake(&self) {
        self.work.changed.notify_all();
    }

    pub fn set_ttl_interval(&self, seconds: u64) {
        self.work.ttl_seconds.store(seconds.max(1), Ordering::Relaxed);
        self.wake();
    }

    pub fn stop(&self) {
        *self.work.stopped.lock() = true;
        self.wake();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the upkeep thread panicked");
        }
    }

    pub fn note_sizes(&self) -> Result<()> {
        self.work.note_sizes()
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Work {
    fn run(&self) {
        let begun = Instant::now();
        let (mut sizes, mut expiry, mut ttl) = (begun, begun, begun);
        loop {
            {
                let mut stopped = self.stopped.lock();
                if !*stopped {
                    self.changed.wait_for(&mut stopped, TICK);
                }
                if *stopped {
                    return;
                }
            }
            report("deleting dropped collections", self.delete_dropped());
            report("sweeping blobs", blob::sweep(&self.shared, || self.is_stopped()));
            if due(&mut sizes, SIZES_EVERY) {
                report("noting sizes", self.note_sizes());
            }
            if due(&mut ttl, Duration::from_secs(self.ttl_seconds.load(Ordering::Relaxed))) {
                report(
                    "expiring documents",
                    self.each_collection(|collection| self.expire_documents(collection)),
                );
            }
            if due(&mut expiry, EXPIRY_EVERY) {
                report("expiring retryable writes", self.retries.expire(self.shared.engine.as_ref()));
                report(
                    "expiring revisions",
                    self.each_collection(|collection| self.expire_revisions(collection)),
                );
            }
        }
    }

    fn is_stopped(&self) -> bool {
        *self.stopped.lock()
    }

    fn each_collection(&self, mut work: impl FnMut(&Arc<Collection>) -> Result<()>) -> Result<()> {
        let entries: Vec<Entry> = self.entries.read().values().cloned().collect();
        for entry in entries {
            if let Entry::Collection(collection) = entry
                && !self.is_stopped()
            {
                match work(&collection) {
                    // There is nothing left to do in it.
                    Err(Error::CollectionDropped(_)) => {}
                    outcome => outcome?,
                }
            }
        }
        Ok(())
    }

    /// A number is a collection's or an index's: what does not exist under it costs nothing.
    fn delete_dropped(&self) -> Result<()> {
        while !self.is_stopped()
            && let Some(number) = self.shared.take_dropped()
        {
            let engine = &self.shared.engine;
            let collection = KeyRange::prefix(&keys::collection_prefix(CollectionId(number)));
            for space in [Space::Records, Space::Log, Space::Revisions] {
                engine.delete_range(space, collection.clone())?;
            }
            engine.delete_range(Space::Indexes, KeyRange::prefix(&keys::index_prefix(IndexId(number))))?;
            engine.delete_range(
                Space::Indexes,
                KeyRange::prefix(&keys::natural_prefix(CollectionId(number))),
            )?;
            blob::delete_all(&self.shared, CollectionId(number))?;
            let collection = CollectionId(number);
            for prefix in [
                keys::locals_prefix(collection),
                keys::settings_prefix(collection),
                keys::views_prefix(collection),
            ] {
                engine.delete_range(Space::Meta, KeyRange::prefix(&prefix))?;
            }
            let mut batch = Batch::new();
            batch.take_reserve();
            batch.delete(Space::Meta, Key::Size(CollectionId(number)).bytes());
            batch.delete(Space::Meta, Key::Dropped(number).bytes());
            engine.commit(batch)?;
        }
        Ok(())
    }

    fn note_sizes(&self) -> Result<()> {
        let mut batch = Batch::new();
        batch.take_reserve();
        let mut noted = self.noted.lock();
        for entry in self.entries.read().values() {
            if let Entry::Collection(collection) = entry {
                let note = collection.sequence.note();
                if noted.get(&collection.id) != Some(&note) {
                    batch.put(Space::Meta, Key::Size(collection.id).bytes(), note.clone());
                    noted.insert(collection.id, note);
                }
            }
        }
        if !batch.is_empty() {
            self.shared.engine.commit(batch)?;
        }
        Ok(())
    }

    fn expire_documents(&self, collection: &Arc<Collection>) -> Result<()> {
        let schema = collection.schema();
        for index in schema.indexes.iter().filter(|index| index.is_ready()) {
            if let Some(seconds) = index.spec.expire_after_seconds {
                let oldest = clock::now_millis().saturating_sub(seconds.saturating_mul(1000));
                self.expire_through(collection, index, oldest)?;
            }
        }
        Ok(())
    }

    /// Deletes the documents whose date in the index's field is before `oldest`.
    fn expire_through(&self, collection: &Arc<Collection>, index: &Arc<Index>, oldest: i64) -> Result<()> {
        let direction = index.spec.fields[0].direction();
        let bound = |millis: i64| {
            let mut out = Vec::new();
            key::encode_order(&mut out, Value::DateTime(millis), direction, None);
            out
        };
        let (from, to) = match direction {
            key::Direction::Ascending => (i64::MIN, oldest),
            key::Direction::Descending => (oldest, i64::MIN),
        };
        let (from, to) = (bound(from), bound(to));
        loop {
            let view = collection.view();
            let prefix = keys::index_prefix(index.id);
            let full = |suffix: &[u8]| Bytes::from([prefix.as_slice(), suffix].concat());
            let range = KeyRange::half_open(full(&from), full(&to));
            let ids = view
                .scan_index(index, range, diwan_kv::Direction::Forward)
                .take(BATCH)
                .map(|entry| Ok(entry?.id))
                .collect::<Result<Vec<_>>>()?;
            if ids.is_empty() || self.is_stopped() {
                return Ok(());
            }
            let found = ids.len();
            // As it is now under its lock: an update meanwhile may have given the document more time.
            let written = collection.edit(&ids, WriteOptions::default(), |_, record| {
                Ok(match record {
                    Some(record) if is_expired(index, record, oldest)? => Edit::Delete,
                    _ => Edit::Keep,
                })
            })?;
            if found < BATCH || written.deleted == 0 {
                return Ok(());
            }
        }
    }

    /// What is remembered of deleted documents, and of revisions that HTTP clients superseded.
    fn expire_revisions(&self, collection: &Arc<Collection>) -> Result<()> {
        let now = clock::now_seconds();
        let keep = collection.schema().options.tombstone_seconds;
        let stopped = || self.is_stopped();
        collection.expire_tombstones(now.saturating_sub(keep), &stopped)?;
        collection.expire_bodies(now.saturating_sub(KEEP_BODIES_SECONDS), &stopped)?;
        Ok(())
    }
}

fn is_expired(index: &Index, record: &Record<'_>, oldest: i64) -> Result<bool> {
    let keys = index.keys_of(record.doc)?;
    let direction = index.spec.fields[0].direction();
    let earliest = keys
        .entries
        .iter()
        .filter_map(|(bytes, types)| match key::Decoder::new(bytes, types).next(direction)?.as_value() {
            Value::DateTime(millis) => Some(millis),
            _ => None,
        })
        .min();
    Ok(earliest.is_some_and(|millis| millis < oldest))
}

fn due(last: &mut Instant, every: Duration) -> bool {
    let is_due = last.elapsed() >= every;
    if is_due {
        *last = Instant::now();
    }
    is_due
}

fn report(what: &str, outcome: Result<()>) {
    if let Err(error) = outcome {
        tracing::error!(%error, "{what} failed");
    }
}
