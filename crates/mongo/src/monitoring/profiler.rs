//! The profiler's settings, and what it collects while a command runs.
//!
//! As in MongoDB, a database has a level, the server has one threshold and one sample rate, and a restart resets all of
//! them. [`profile_entry`](crate::monitoring::profile_entry) writes the entries to `system.profile`.

use crate::error::{CommandError, Result};
use crate::server::Server;
use diwan_query::filter::{Filter, FilterEnv};
use diwan_query::{Examined, code as query_code};
use diwan_store::replica::Applying;
use diwan_store::{Entry, Namespace};
use diwan_value::{Doc, DocBuf, doc};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The collection that holds a database's entries.
const COLLECTION: &str = "system.profile";
/// The size of that collection if the profiler creates it, as in MongoDB.
const KEPT_BYTES: i32 = 1 << 20;

/// The profiling settings of one database.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatabaseSettings {
    /// 0 profiles nothing, 1 slow commands or those that match the filter, 2 all commands.
    pub level: i32,
    /// At level 1, selects entries instead of the threshold: as the client sent it, and compiled.
    pub filter: Option<(DocBuf, Arc<Filter>)>,
}

/// When a command counts as slow, and how many of the slow commands are recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowThreshold {
    /// The threshold in milliseconds (`slowms`).
    pub millis: i64,
    /// The share of slow commands that are recorded and logged, from 0 to 1 (`sampleRate`).
    pub sample_rate: f64,
}

impl SlowThreshold {
    /// Whether a command that took so long is recorded and logged.
    pub(crate) fn includes(&self, took: Duration) -> bool {
        // Without random bytes every slow command is recorded.
        let random = || getrandom::u64().map_or(0.0, |random| random as f64 / u64::MAX as f64);
        let is_slow = i64::try_from(took.as_millis()).unwrap_or(i64::MAX) >= self.millis;
        is_slow && (self.sample_rate >= 1.0 || random() < self.sample_rate)
    }
}

/// The settings of the server and of its databases.
#[derive(Debug)]
pub(crate) struct Profiler {
    slow: Mutex<SlowThreshold>,
    databases: RwLock<HashMap<String, Arc<DatabaseSettings>>>,
    /// Whether any database has settings. Every command checks it, so it is an atomic and no lock.
    active: AtomicBool,
}

impl Default for Profiler {
    fn default() -> Profiler {
        Profiler {
            slow: Mutex::new(SlowThreshold { millis: 100, sample_rate: 1.0 }),
            databases: RwLock::default(),
            active: AtomicBool::new(false),
        }
    }
}

impl Profiler {
    /// Whether any database is profiled.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// The threshold for slow commands.
    pub(crate) fn slow(&self) -> SlowThreshold {
        *self.slow.lock()
    }

    /// Changes the threshold for slow commands.
    pub(crate) fn set_slow(&self, slow: SlowThreshold) {
        *self.slow.lock() = slow;
    }

    /// The settings of a database, if it has any.
    pub(crate) fn settings(&self, database: &str) -> Option<Arc<DatabaseSettings>> {
        if !self.is_active() {
            return None;
        }
        self.databases.read().get(database).cloned()
    }

    /// The level of a database.
    pub(crate) fn level(&self, database: &str) -> i32 {
        self.settings(database).map_or(0, |settings| settings.level)
    }

    /// Changes the settings of a database.
    pub(crate) fn set(&self, database: &str, settings: DatabaseSettings) {
        let mut databases = self.databases.write();
        if settings.level == 0 && settings.filter.is_none() {
            databases.remove(database);
        } else {
            databases.insert(database.to_owned(), Arc::new(settings));
        }
        self.active.store(!databases.is_empty(), Ordering::Relaxed);
    }
}

/// Compiles a filter for entries.
pub(crate) fn compile_filter(filter: Doc<'_>) -> Result<Arc<Filter>> {
    Ok(Arc::new(Filter::parse(filter, &FilterEnv::with_collator(None))?))
}

/// The namespace of a database's `system.profile`.
pub(crate) fn profile_collection(database: &str) -> Result<Namespace> {
    Ok(Namespace::new(database, COLLECTION)?)
}

/// Whether a collection is a `system.profile`, which only the profiler writes.
pub(crate) fn is_profile(namespace: &Namespace) -> bool {
    namespace.collection == COLLECTION
}

/// Creates a database's `system.profile` if it does not exist. An existing one must be capped, or it would grow without
/// limit.
pub(crate) fn create_collection(server: &Server, database: &str) -> Result<()> {
    let (namespace, options) = (profile_collection(database)?, doc! { "capped": true, "size": KEPT_BYTES });
    // Each member of a replica set has a profile of its own.
    let _applying = Applying::begin();
    let created = server.store.create(&namespace, options.as_doc());
    match server.store.entry(&namespace) {
        Some(Entry::Collection(found)) if found.schema().options.capped.is_some() => Ok(()),
        Some(_) => {
            let text = format!("{namespace} exists but isn't capped");
            Err(CommandError::new(query_code::NAMESPACE_EXISTS, text))
        }
        None => Ok(created.map(drop)?),
    }
}

/// What the profiler collects while a command runs.
#[derive(Default)]
pub(crate) struct Trace {
    /// Document counts of the command, by the entry's field.
    pub counts: Vec<(&'static str, u64)>,
    /// The statements of the command that have ended.
    pub statements: Vec<ProfiledStatement>,
}

impl Trace {
    /// Adds a document count under the name of the entry's field.
    pub(crate) fn count(&mut self, name: &'static str, count: u64) {
        self.counts.push((name, count));
    }
}

/// The subject of one entry: a statement of an update, delete or bulk write, or any other command as a whole.
pub(crate) struct ProfiledStatement {
    /// The entry's `op`.
    pub kind: &'static str,
    pub database: String,
    pub collection: String,
    pub command: DocBuf,
    pub took: Duration,
    pub read: Examined,
    pub plan: Option<String>,
    /// Document counts, by the entry's field.
    pub counts: Vec<(&'static str, u64)>,
    pub error: Option<CommandError>,
}
