//! Tells a running operation when to stop: at a deadline (`maxTimeMS`), or on request (`killOp`, a closed connection).
//! Every part of an operation has access to it, so it also carries the operation's [`Tally`].

use crate::error::{Error, Result, code};
use crate::tally::Tally;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// A stop signal that long loops check regularly, for example once in a few hundred documents. Cheap to clone.
///
/// Clones share all state: the deadline set through one clone applies to all.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    killed: AtomicBool,
    abandoned: AtomicBool,
    /// In microseconds since [`START`]; [`NEVER`] if there is none.
    deadline: AtomicU64,
    tally: Tally,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            killed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            deadline: AtomicU64::new(NEVER),
            tally: Tally::default(),
        }
    }
}

/// The start of time for deadlines.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The value for "no deadline".
const NEVER: u64 = u64::MAX;

impl Interrupt {
    /// An interrupt without a deadline. [`Interrupt::kill`] triggers it.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// An interrupt that triggers at `deadline`.
    pub fn with_deadline(deadline: Option<Instant>) -> Interrupt {
        let interrupt = Interrupt::new();
        interrupt.set_deadline(deadline);
        interrupt
    }

    /// The time by which the operation must end.
    pub fn deadline(&self) -> Option<Instant> {
        match self.shared.deadline.load(Ordering::Relaxed) {
            NEVER => None,
            micros => Some(*START + Duration::from_micros(micros)),
        }
    }

    /// Sets the deadline. Between two batches of a cursor there is none.
    pub fn set_deadline(&self, deadline: Option<Instant>) {
        let micros = deadline.map_or(NEVER, |deadline| {
            let since = deadline.saturating_duration_since(*START).as_micros();
            u64::try_from(since).unwrap_or(NEVER)
        });
        self.shared.deadline.store(micros, Ordering::Relaxed);
    }

    /// The counts of what the operation has read.
    pub fn tally(&self) -> &Tally {
        &self.shared.tally
    }

    /// Whether [`Interrupt::kill`] was called.
    pub fn is_killed(&self) -> bool {
        self.shared.killed.load(Ordering::Relaxed)
    }

    /// Tells the holders of all clones to stop.
    pub fn kill(&self) {
        self.shared.killed.store(true, Ordering::Relaxed);
    }

    /// Ends the operation only if it waits for others: nobody waits for its result, but what it has begun it completes.
    pub fn abandon(&self) {
        self.shared.abandoned.store(true, Ordering::Relaxed);
    }

    /// Like [`Interrupt::check`], for an operation that waits for others.
    pub fn check_waiting(&self) -> Result<()> {
        if self.shared.abandoned.load(Ordering::Relaxed) {
            return Err(Error::new(code::INTERRUPTED, "operation was interrupted: its client has gone"));
        }
        self.check()
    }

    /// Returns `MaxTimeMSExpired` or `Interrupted` if the operation must stop.
    pub fn check(&self) -> Result<()> {
        if self.is_killed() {
            return Err(Error::new(code::INTERRUPTED, "operation was interrupted"));
        }
        if self.deadline().is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Error::new(code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_deadline_applies_to_all_clones() {
        let interrupt = Interrupt::with_deadline(Some(Instant::now()));
        let clone = interrupt.clone();
        assert_eq!(clone.check().unwrap_err().code, code::MAX_TIME_MS_EXPIRED);
        interrupt.set_deadline(None);
        assert!(clone.check().is_ok() && clone.deadline().is_none());
        clone.kill();
        assert_eq!(interrupt.check().unwrap_err().code, code::INTERRUPTED);
    }
}
