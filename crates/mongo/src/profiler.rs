//! The profiler: which commands leave an entry in their database's `system.profile`, and which ones the log calls slow.
//!
//! As in MongoDB a level belongs to a database, the threshold and the sample rate belong to the server, and a restart
//! forgets all of it. An entry says what was asked, how long it took, by which plan documents were found, and how many were read and returned.

use crate::clock::unix_millis;
use crate::commands::Command;
use crate::dispatch::Context;
use crate::error::{self, CommandError, Result};
use crate::metrics::Kind;
use crate::request::Request;
use crate::server::Server;
use diwan_query::filter::{Filter, FilterEnv};
use diwan_query::{Examined, code as query_code};
use diwan_store::{Entry, Namespace, WriteOptions};
use diwan_value::{Array, Doc, DocBuf, DocBuilder, Value, doc};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The collection of the entries.
const COLLECTION: &str = "system.profile";
/// How many bytes of entries are kept, unless the collection was created otherwise (MongoDB's size).
const KEPT_BYTES: i32 = 1 << 20;

/// What of a database's commands is recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// 0: nothing; 1: what is slow, or what the filter says; 2: everything.
    pub level: i32,
    /// Which entries are recorded at level 1 instead of the slow ones: as it was given, and compiled.
    pub filter: Option<(DocBuf, Arc<Filter>)>,
}

/// When a command is slow, and how many of the slow ones are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slow {
    /// The threshold in milliseconds (`slowms`).
    pub millis: i64,
    /// The share of slow commands that are recorded and logged, 0 to 1 (`sampleRate`).
    pub sample_rate: f64,
}

impl Slow {
    /// Whether a command that took so long is recorded and logged.
    pub(crate) fn includes(&self, took: Duration) -> bool {
        // The system's random bytes do not fail once it has started; if they did, too much is better than nothing.
        let random = || getrandom::u64().map_or(0.0, |random| random as f64 / u64::MAX as f64);
        let is_long = i64::try_from(took.as_millis()).unwrap_or(i64::MAX) >= self.millis;
        is_long && (self.sample_rate >= 1.0 || random() < self.sample_rate)
    }
}

/// The settings of a server.
#[derive(Debug)]
pub(crate) struct Profiler {
    slow: Mutex<Slow>,
    databases: RwLock<HashMap<String, Arc<Settings>>>,
    /// Whether any database has settings: asked by every command.
    active: AtomicBool,
}

impl Default for Profiler {
    fn default() -> Profiler {
        Profiler {
            slow: Mutex::new(Slow { millis: 100, sample_rate: 1.0 }),
            databases: RwLock::default(),
            active: AtomicBool::new(false),
        }
    }
}

impl Profiler {
    /// What is slow.
    pub(crate) fn slow(&self) -> Slow {
        *self.slow.lock()
    }

    /// Says what is slow from now on.
    pub(crate) fn set_slow(&self, slow: Slow) {
        *self.slow.lock() = slow;
    }

    /// A database's settings, if it has any.
    pub(crate) fn settings(&self, database: &str) -> Option<Arc<Settings>> {
        if !self.active.load(Ordering::Relaxed) {
            return None;
        }
        self.databases.read().get(database).cloned()
    }

    /// A database's level.
    pub(crate) fn level(&self, database: &str) -> i32 {
        self.settings(database).map_or(0, |settings| settings.level)
    }

    /// Changes a database's settings.
    pub(crate) fn set(&self, database: &str, settings: Settings) {
        let mut databases = self.databases.write();
        if settings.level == 0 && settings.filter.is_none() {
            databases.remove(database);
        } else {
            databases.insert(database.to_owned(), Arc::new(settings));
        }
        self.active.store(!databases.is_empty(), Ordering::Relaxed);
    }

    /// Begins to follow a command, if it may have to be recorded.
    pub(crate) fn follow(&self, command: &Command, request: &Request<'_>) -> Option<Trace> {
        if !self.active.load(Ordering::Relaxed) {
            return None;
        }
        let is_recorded = match request.target() {
            // Its statements name their collections themselves.
            _ if command.name == "bulkWrite" => true,
            _ if command.is_admin_only() => false,
            Value::String(_) => self.level(request.arguments.database) > 0,
            _ => command.is_profiled_by_database() && self.level(request.arguments.database) > 0,
        };
        is_recorded.then(Trace::default)
    }
}

/// Compiles a filter of entries.
pub(crate) fn compile_filter(filter: Doc<'_>) -> Result<Arc<Filter>> {
    Ok(Arc::new(Filter::parse(filter, &FilterEnv::with_collator(None))?))
}

/// The collection of a database's entries.
pub(crate) fn collection(database: &str) -> Result<Namespace> {
    Ok(Namespace::new(database, COLLECTION)?)
}

/// Whether a collection is one of entries, which only the server writes.
pub(crate) fn is_profile(namespace: &Namespace) -> bool {
    namespace.collection == COLLECTION
}

/// Creates the collection of a database's entries if there is none; one that grows without end is refused.
pub(crate) fn create_collection(server: &Server, database: &str) -> Result<()> {
    let (namespace, options) = (collection(database)?, doc! { "capped": true, "size": KEPT_BYTES });
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

/// What a command has done so far.
#[derive(Default)]
pub(crate) struct Trace {
    counts: Vec<(&'static str, u64)>,
    /// The statements that have ended.
    pub statements: Vec<Statement>,
}

/// What has an entry: one statement of a command that has several, or else the command.
pub(crate) struct Statement {
    /// What the entry says the kind of work is.
    pub kind: &'static str,
    pub database: String,
    pub collection: String,
    pub command: DocBuf,
    pub took: Duration,
    pub read: Examined,
    pub plan: Option<String>,
    /// How many documents it was about, by the entry's field.
    pub counts: Vec<(&'static str, u64)>,
    pub error: Option<CommandError>,
}

impl Trace {
    /// Notes how many documents the command was about, under the name of the entry's field.
    pub(crate) fn count(&mut self, name: &'static str, count: u64) {
        self.counts.push((name, count));
    }
}

/// A command that has ended, for its entry.
pub(crate) struct Ended<'a> {
    pub context: &'a Context<'a>,
    pub command: &'a Command,
    /// The command's body, cut short where it is long.
    pub shown: &'a dyn Fn() -> DocBuf,
    pub took: Duration,
    pub error: Option<&'a CommandError>,
    /// How many bytes of reply there are.
    pub reply_bytes: usize,
}

impl Ended<'_> {
    /// Records the command if it is to be recorded. What cannot be recorded is logged: the command itself has ended.
    pub(crate) fn record(self, trace: Trace) {
        if let Err(error) = self.try_record(trace) {
            tracing::warn!(command = self.context.request.name, error = %error.message, "cannot write to system.profile");
        }
    }

    fn try_record(&self, mut trace: Trace) -> Result<()> {
        let server = self.context.server;
        if trace.statements.is_empty() {
            trace.statements.push(Statement {
                kind: kind(self.command),
                database: self.context.request.arguments.database.to_owned(),
                collection: self.collection(),
                command: (self.shown)(),
                took: self.took,
                read: self.context.examined(),
                plan: self.context.interrupt.tally().plan_summary(),
                counts: std::mem::take(&mut trace.counts),
                error: self.error.cloned(),
            });
        }
        let mut entries: BTreeMap<&str, Vec<DocBuf>> = BTreeMap::new();
        for statement in &trace.statements {
            // As of now: the command may have dropped its database.
            let settings = server.profiler.settings(&statement.database);
            let Some(settings) = settings.filter(|settings| settings.level > 0) else { continue };
            let is_slow = || server.profiler.slow().includes(statement.took);
            let entry = match &settings.filter {
                _ if settings.level >= 2 => Some(self.entry(statement)),
                Some((_, filter)) => {
                    let entry = self.entry(statement);
                    filter.matches(entry.as_doc())?.then_some(entry)
                }
                None => is_slow().then(|| self.entry(statement)),
            };
            entries.entry(&statement.database).or_default().extend(entry);
        }
        for (database, entries) in entries.iter().filter(|(_, entries)| !entries.is_empty()) {
            // It has been there since the level was set, unless the database was dropped.
            if let Some(collection) = server.store.collection(&collection(database)?)? {
                let entries: Vec<Doc<'_>> = entries.iter().map(DocBuf::as_doc).collect();
                collection.insert(&entries, false, WriteOptions::default())?;
            }
        }
        Ok(())
    }

    /// The collection that the command is about.
    fn collection(&self) -> String {
        let Request { name, body, .. } = self.context.request;
        match self.context.request.target() {
            Value::String(collection) => collection.to_owned(),
            Value::Int64(_) if *name == "getMore" => {
                body.get_str("collection").unwrap_or_default().to_owned()
            }
            _ if *name == "aggregate" => "$cmd.aggregate".to_owned(),
            _ => "$cmd".to_owned(),
        }
    }

    /// An entry, with MongoDB's field names.
    fn entry(&self, statement: &Statement) -> DocBuf {
        let mut out = DocBuilder::new();
        let Statement { database, collection, .. } = statement;
        out.append("op", statement.kind).append("ns", format!("{database}.{collection}"));
        out.append("command", &statement.command);
        out.append("keysExamined", Value::integer(statement.read.keys as i64));
        out.append("docsExamined", Value::integer(statement.read.documents as i64));
        for (name, count) in &statement.counts {
            match *name {
                "cursorid" => out.append(name, *count as i64),
                _ => out.append(name, i32::try_from(*count).unwrap_or(i32::MAX)),
            };
        }
        if let Some(error) = &statement.error {
            out.append("ok", 0.0).append("errMsg", error.message.as_str());
            out.append("errName", error::name(error.code)).append("errCode", error.code);
        }
        out.append("responseLength", i32::try_from(self.reply_bytes).unwrap_or(i32::MAX));
        if let Some(plan) = &statement.plan {
            out.append("planSummary", plan.as_str());
        }
        out.append("protocol", "op_msg");
        out.append("millis", i32::try_from(statement.took.as_millis()).unwrap_or(i32::MAX));
        out.append("ts", Value::DateTime(unix_millis()))
            .append("client", self.context.client.peer.ip().to_string());
        if let Some(application) = self.context.client.application() {
            out.append("appName", application);
        }
        out.append("allUsers", Value::Array(Array::EMPTY)).append("user", "");
        out.finish()
    }
}

/// The kind of work that an entry says it is.
fn kind(command: &Command) -> &'static str {
    match command.kind {
        Kind::Delete => "remove",
        kind => kind.name(),
    }
}
