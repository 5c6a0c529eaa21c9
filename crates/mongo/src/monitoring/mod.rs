//! Observation of the server: counters, running operations, the profiler, the log, the machine.

pub mod log;
pub(crate) mod machine;
pub(crate) mod metrics;
pub(crate) mod operations;
pub(crate) mod profile_entry;
pub(crate) mod profiler;
pub(crate) mod prometheus;
pub(crate) mod totals;
pub(crate) mod usage;
