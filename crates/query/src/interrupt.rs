//! When running work must stop: a deadline (`maxTimeMS`), or somebody's word (`killOp`, a closed connection).

use crate::error::{Error, Result, code};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What a long loop asks from time to time, every few hundred documents or so. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    deadline: Option<Instant>,
    killed: Arc<AtomicBool>,
}

impl Interrupt {
    /// Never stops by itself; [`Interrupt::kill`] stops it.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Stops at `deadline`.
    pub fn with_deadline(deadline: Option<Instant>) -> Interrupt {
        Interrupt { deadline, killed: Arc::default() }
    }

    /// When the work must be done.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Asks every holder of a clone to stop.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
    }

    /// `MaxTimeMSExpired` or `Interrupted` if the work must stop.
    pub fn check(&self) -> Result<()> {
        if self.killed.load(Ordering::Relaxed) {
            return Err(Error::new(code::INTERRUPTED, "operation was interrupted"));
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Error::new(code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"));
        }
        Ok(())
    }
}
