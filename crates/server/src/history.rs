//! The last hour of the server: a sample each 15 seconds, in memory.

use diwan_couch::Couch;
use diwan_mongo::{Server, Totals};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time between two samples.
const INTERVAL: Duration = Duration::from_secs(15);
/// An hour of samples.
const SAMPLES: usize = 240;

/// The names of the series, in the order of a sample's values.
const SERIES: [&str; 9] = [
    "reads",
    "writes",
    "commands",
    "http_requests",
    "latency_ms",
    "connections",
    "memory_bytes",
    "cache_bytes",
    "journal_bytes",
];

struct Sample {
    at: u64,
    values: [f64; SERIES.len()],
}

/// The samples.
#[derive(Default)]
pub struct History {
    samples: Mutex<VecDeque<Sample>>,
}

impl History {
    /// Takes samples until the task is dropped.
    pub async fn follow(self: Arc<Self>, server: Arc<Server>, couch: Option<Arc<Couch>>) {
        let requests = || couch.as_ref().map_or(0, |couch| couch.request_count());
        let mut before = (server.totals(), requests());
        let mut interval = tokio::time::interval(INTERVAL);
        interval.tick().await;
        loop {
            interval.tick().await;
            let now = (server.totals(), requests());
            self.add(&before.0, &now.0, now.1.saturating_sub(before.1), &server);
            before = now;
        }
    }

    fn add(&self, before: &Totals, now: &Totals, http_requests: u64, server: &Server) {
        let rate = |old: u64, new: u64| new.saturating_sub(old) as f64 / INTERVAL.as_secs_f64();
        let operations = now.operations().saturating_sub(before.operations());
        let micros = now.micros.saturating_sub(before.micros);
        let latency = if operations == 0 { 0.0 } else { micros as f64 / operations as f64 / 1000.0 };
        let figures = server.figures();
        let sample = Sample {
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
            values: [
                rate(before.reads, now.reads),
                rate(before.writes, now.writes),
                rate(before.commands, now.commands),
                http_requests as f64 / INTERVAL.as_secs_f64(),
                latency,
                figures.connections as f64,
                figures.memory_bytes as f64,
                figures.cache_bytes as f64,
                figures.journal_bytes as f64,
            ],
        };
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() >= SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// The samples in columns.
    pub fn to_json(&self) -> Value {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let at: Vec<u64> = samples.iter().map(|sample| sample.at).collect();
        let series: Map<String, Value> = SERIES
            .iter()
            .enumerate()
            .map(|(column, name)| {
                let values: Vec<f64> = samples.iter().map(|sample| sample.values[column]).collect();
                ((*name).to_owned(), json!(values))
            })
            .collect();
        json!({ "interval_ms": INTERVAL.as_millis() as u64, "at": at, "series": series })
    }
}
