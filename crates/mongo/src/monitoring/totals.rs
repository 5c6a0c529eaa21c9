//! What other parts of the program show of this face: totals since the start, and figures as of now.

use crate::monitoring::machine;
use crate::monitoring::metrics::LatencyClass;
use crate::server::Server;

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Commands that read documents.
    pub reads: u64,
    /// Commands that write documents.
    pub writes: u64,
    /// Other commands.
    pub commands: u64,
    /// How long all of them took, in microseconds.
    pub micros: u64,
}

impl Totals {
    /// All commands.
    pub fn operations(&self) -> u64 {
        self.reads + self.writes + self.commands
    }
}

/// Figures as of now. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Open connections of this face.
    pub connections: u64,
    /// Memory that the process holds.
    pub memory_bytes: u64,
    /// Cached blocks.
    pub cache_bytes: u64,
    /// The most that the cache takes.
    pub cache_limit_bytes: u64,
    /// Journals on disk.
    pub journal_bytes: u64,
    /// All files on disk.
    pub disk_bytes: u64,
}

impl Server {
    /// Totals since the start.
    pub fn totals(&self) -> Totals {
        let of = |class: LatencyClass| &self.metrics.latencies[class as usize];
        Totals {
            reads: of(LatencyClass::Reads).count.get(),
            writes: of(LatencyClass::Writes).count.get(),
            commands: of(LatencyClass::Commands).count.get(),
            micros: LatencyClass::ALL.into_iter().map(|class| of(class).micros.get()).sum(),
        }
    }

    /// Figures as of now.
    pub fn figures(&self) -> Figures {
        let stats = self.engine.stats();
        Figures {
            connections: self.metrics.open_connections(),
            memory_bytes: machine::resident_bytes(),
            cache_bytes: stats.cache_bytes,
            cache_limit_bytes: stats.cache_capacity,
            journal_bytes: stats.journal_bytes,
            disk_bytes: stats.disk_bytes,
        }
    }
}
