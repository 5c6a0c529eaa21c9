//! What the face counts: for `serverStatus`, and for `/metrics`.

use crate::machine;
use crate::server::Server;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The kinds of work that MongoDB's `opcounters` tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Insert,
    Query,
    Update,
    Delete,
    GetMore,
    Command,
}

impl Kind {
    /// All kinds, in the order in which they are reported.
    pub const ALL: [Kind; 6] =
        [Kind::Insert, Kind::Query, Kind::Update, Kind::Delete, Kind::GetMore, Kind::Command];

    /// The name in `opcounters`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Insert => "insert",
            Kind::Query => "query",
            Kind::Update => "update",
            Kind::Delete => "delete",
            Kind::GetMore => "getmore",
            Kind::Command => "command",
        }
    }
}

/// How often something was done, and how long it took altogether.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    pub count: Counter,
    pub micros: Counter,
}

/// The classes of `opLatencies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Reads,
    Writes,
    Commands,
}

/// The counters of one server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Operations: documents for inserts, commands for the rest.
    pub operations: [Counter; Kind::ALL.len()],
    pub latencies: [Latency; 3],
    pub errors: Counter,
    pub connections_opened: Counter,
    pub connections_closed: Counter,
    pub connections_refused: Counter,
    pub bytes_in: Counter,
    pub bytes_out: Counter,
    pub requests: Counter,
}

impl Metrics {
    pub(crate) fn count(&self, kind: Kind, operations: u64) {
        self.operations[kind as usize].add(operations);
    }

    pub(crate) fn took(&self, class: Class, duration: Duration) {
        let latency = &self.latencies[class as usize];
        latency.count.add(1);
        latency.micros.add(duration.as_micros() as u64);
    }

    /// How many connections are open.
    pub(crate) fn open_connections(&self) -> u64 {
        self.connections_opened.get().saturating_sub(self.connections_closed.get())
    }
}

/// The counters in Prometheus' text format.
pub(crate) fn prometheus(server: &Server) -> String {
    let mut out = String::with_capacity(2048);
    let metrics = &server.metrics;
    let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
        let _ = writeln!(out, "# HELP diwan_{name} {help}\n# TYPE diwan_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(out, "diwan_{name}{labels} {value}");
        }
    };
    let one = |value: u64| vec![(String::new(), value as f64)];
    let operations: Vec<_> = Kind::ALL
        .iter()
        .map(|kind| {
            (format!("{{type=\"{}\"}}", kind.name()), metrics.operations[*kind as usize].get() as f64)
        })
        .collect();
    family("operations_total", "counter", "Operations by type.", &operations);
    let classes = [(Class::Reads, "reads"), (Class::Writes, "writes"), (Class::Commands, "commands")];
    let latency = |value: fn(&Latency) -> f64| -> Vec<_> {
        let sample = |(class, name): &(Class, &str)| {
            (format!("{{class=\"{name}\"}}"), value(&metrics.latencies[*class as usize]))
        };
        classes.iter().map(sample).collect()
    };
    let seconds = latency(|latency| latency.micros.get() as f64 / 1e6);
    family("command_seconds_total", "counter", "Time spent in commands.", &seconds);
    let commands = latency(|latency| latency.count.get() as f64);
    family("commands_total", "counter", "Commands by class.", &commands);
    family("command_errors_total", "counter", "Commands that failed.", &one(metrics.errors.get()));
    family("connections", "gauge", "Open connections.", &one(metrics.open_connections()));
    family("connections_total", "counter", "Connections accepted.", &one(metrics.connections_opened.get()));
    family(
        "connections_refused_total",
        "counter",
        "Connections refused.",
        &one(metrics.connections_refused.get()),
    );
    family("received_bytes_total", "counter", "Bytes of requests.", &one(metrics.bytes_in.get()));
    family("sent_bytes_total", "counter", "Bytes of replies.", &one(metrics.bytes_out.get()));
    let stats = server.engine.stats();
    family("disk_bytes", "gauge", "Bytes on disk, journals included.", &one(stats.disk_bytes));
    family("journal_bytes", "gauge", "Bytes of journals.", &one(stats.journal_bytes));
    family("memtable_bytes", "gauge", "Bytes of writes held in memory.", &one(stats.memtable_bytes));
    family("cache_bytes", "gauge", "Bytes of cached blocks.", &one(stats.cache_bytes));
    family("resident_bytes", "gauge", "Memory that the process holds.", &one(machine::resident_bytes()));
    let uptime = server.started.elapsed().as_secs_f64();
    family("uptime_seconds", "gauge", "Time since the start.", &[(String::new(), uptime)]);
    out
}
