//! Counters of operations, latencies, connections and bytes, for `serverStatus` and `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A counter that only grows.
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

/// The kinds of operations in `opcounters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Insert,
    Query,
    Update,
    Delete,
    GetMore,
    Command,
}

impl OperationKind {
    /// All kinds, in the order of the report.
    pub(crate) const ALL: [OperationKind; 6] = [
        OperationKind::Insert,
        OperationKind::Query,
        OperationKind::Update,
        OperationKind::Delete,
        OperationKind::GetMore,
        OperationKind::Command,
    ];

    /// The name in `opcounters`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            OperationKind::Insert => "insert",
            OperationKind::Query => "query",
            OperationKind::Update => "update",
            OperationKind::Delete => "delete",
            OperationKind::GetMore => "getmore",
            OperationKind::Command => "command",
        }
    }
}

/// How many operations there were, and their total time.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    pub count: Counter,
    pub micros: Counter,
}

/// The classes of operations in `opLatencies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LatencyClass {
    Reads,
    Writes,
    Commands,
}

impl LatencyClass {
    /// All classes, in the order of the report.
    pub(crate) const ALL: [LatencyClass; 3] =
        [LatencyClass::Reads, LatencyClass::Writes, LatencyClass::Commands];

    /// The class of a command that writes or reads documents, or does neither.
    pub(crate) fn of(writes: bool, reads: bool) -> LatencyClass {
        match (writes, reads) {
            (true, _) => LatencyClass::Writes,
            (false, true) => LatencyClass::Reads,
            (false, false) => LatencyClass::Commands,
        }
    }

    /// The name in `opLatencies`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LatencyClass::Reads => "reads",
            LatencyClass::Writes => "writes",
            LatencyClass::Commands => "commands",
        }
    }
}

/// The counters of one server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// By kind: documents for inserts, statements for updates and deletes, commands for the rest.
    pub operations: [Counter; OperationKind::ALL.len()],
    /// By class.
    pub latencies: [Latency; LatencyClass::ALL.len()],
    pub errors: Counter,
    pub connections_opened: Counter,
    pub connections_closed: Counter,
    pub connections_refused: Counter,
    pub bytes_in: Counter,
    pub bytes_out: Counter,
    pub requests: Counter,
}

impl Metrics {
    pub(crate) fn count(&self, kind: OperationKind, operations: u64) {
        self.operations[kind as usize].add(operations);
    }

    pub(crate) fn took(&self, class: LatencyClass, duration: Duration) {
        let latency = &self.latencies[class as usize];
        latency.count.add(1);
        latency.micros.add(duration.as_micros() as u64);
    }

    /// How many connections are open.
    pub(crate) fn open_connections(&self) -> u64 {
        self.connections_opened.get().saturating_sub(self.connections_closed.get())
    }
}
