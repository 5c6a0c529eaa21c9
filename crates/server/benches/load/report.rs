//! The results of one workload.

use std::time::Duration;

/// The figures of one run.
pub struct Report {
    /// The durations of operations, ascending.
    pub took: Vec<Duration>,
    pub wall: Duration,
    pub server: Duration,
    pub clients: Duration,
}

impl Report {
    pub const HEADING: &str = "workload                          binary             ops/s  \
                               CPU µs: server client       p50       p99       max";

    fn per_operation(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.took.len().max(1) as f64
    }

    fn rate(&self) -> f64 {
        self.took.len() as f64 / self.wall.as_secs_f64()
    }

    /// The duration that only this share of the operations exceeded.
    fn quantile(&self, part: f64) -> Duration {
        let at = ((1.0 - part) * self.took.len() as f64) as usize;
        self.took.get(at.min(self.took.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    /// The run with the greatest rate: a disturbance makes a run slower, never faster.
    pub fn best(reports: Vec<Report>) -> Option<Report> {
        reports.into_iter().max_by(|a, b| a.rate().total_cmp(&b.rate()))
    }

    pub fn line(&self, workload: &str, binary: &str) -> String {
        format!(
            "{workload:<33} {binary:<14} {:>9.0}  {:>14.1} {:>6.1} {:>9.1?} {:>9.1?} {:>9.1?}",
            self.rate(),
            self.per_operation(self.server),
            self.per_operation(self.clients),
            self.quantile(0.5),
            self.quantile(0.01),
            self.quantile(0.0),
        )
    }
}
