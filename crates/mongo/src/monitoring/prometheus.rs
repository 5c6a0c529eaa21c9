//! The counters in Prometheus' text format.

use crate::monitoring::machine;
use crate::monitoring::metrics::{Latency, LatencyClass, OperationKind};
use crate::server::Server;
use std::fmt::Write;

/// All metrics of the server.
pub(crate) fn render(server: &Server) -> String {
    let mut out = String::with_capacity(2048);
    let metrics = &server.metrics;
    let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
        let _ = writeln!(out, "# HELP diwan_{name} {help}\n# TYPE diwan_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(out, "diwan_{name}{labels} {value}");
        }
    };
    let one = |value: u64| vec![(String::new(), value as f64)];
    let operations: Vec<_> = OperationKind::ALL
        .iter()
        .map(|kind| {
            (format!("{{type=\"{}\"}}", kind.name()), metrics.operations[*kind as usize].get() as f64)
        })
        .collect();
    family("operations_total", "counter", "Operations by type.", &operations);
    let latency = |value: fn(&Latency) -> f64| -> Vec<_> {
        let sample = |class: LatencyClass| {
            (format!("{{class=\"{}\"}}", class.name()), value(&metrics.latencies[class as usize]))
        };
        LatencyClass::ALL.into_iter().map(sample).collect()
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
    let replica = server.store.replica();
    family("followers", "gauge", "Servers that follow this one.", &one(replica.members().len() as u64));
    family("follows", "gauge", "Whether this server follows another one.", &one(replica.follows().into()));
    if let Some(lag) = replica.lag() {
        let seconds = [(String::new(), lag.as_secs_f64())];
        family("follower_lag_seconds", "gauge", "Time since this follower had everything.", &seconds);
    }
    let uptime = server.started.elapsed().as_secs_f64();
    family("uptime_seconds", "gauge", "Time since the start.", &[(String::new(), uptime)]);
    out
}
