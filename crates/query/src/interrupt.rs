//! When running work must stop: a deadline (`maxTimeMS`), or somebody's word (`killOp`, a closed connection). As it goes
//! wherever the work goes, it takes the [tally](Tally) of it along.

use crate::error::{Error, Result, code};
use crate::tally::Tally;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// What a long loop asks from time to time, every few hundred documents or so. Cheap to clone.
///
/// Clones share everything: whoever holds one can move the deadline of all.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    killed: AtomicBool,
    /// In microseconds since [`START`]; [`NEVER`] if there is none.
    deadline: AtomicU64,
    tally: Tally,
}

impl Default for State {
    fn default() -> State {
        State { killed: AtomicBool::new(false), deadline: AtomicU64::new(NEVER), tally: Tally::default() }
    }
}

/// What deadlines are counted from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// No deadline.
const NEVER: u64 = u64::MAX;

impl Interrupt {
    /// Never stops by itself; [`Interrupt::kill`] stops it.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Stops at `deadline`.
    pub fn with_deadline(deadline: Option<Instant>) -> Interrupt {
        let interrupt = Interrupt::new();
        interrupt.set_deadline(deadline);
        interrupt
    }

    /// When the work must be done.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state.deadline.load(Ordering::Relaxed) {
            NEVER => None,
            micros => Some(*START + Duration::from_micros(micros)),
        }
    }

    /// Moves the deadline: between two batches of a cursor there is none.
    pub fn set_deadline(&self, deadline: Option<Instant>) {
        let micros = deadline.map_or(NEVER, |deadline| {
            let since = deadline.saturating_duration_since(*START).as_micros();
            u64::try_from(since).unwrap_or(NEVER)
        });
        self.state.deadline.store(micros, Ordering::Relaxed);
    }

    /// What the work has read so far.
    pub fn tally(&self) -> &Tally {
        &self.state.tally
    }

    /// Whether [`Interrupt::kill`] was called.
    pub fn is_killed(&self) -> bool {
        self.state.killed.load(Ordering::Relaxed)
    }

    /// Asks every holder of a clone to stop.
    pub fn kill(&self) {
        self.state.killed.store(true, Ordering::Relaxed);
    }

    /// `MaxTimeMSExpired` or `Interrupted` if the work must stop.
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
    fn a_moved_deadline_counts_for_all_clones() {
        let interrupt = Interrupt::with_deadline(Some(Instant::now()));
        let clone = interrupt.clone();
        assert_eq!(clone.check().unwrap_err().code, code::MAX_TIME_MS_EXPIRED);
        interrupt.set_deadline(None);
        assert!(clone.check().is_ok() && clone.deadline().is_none());
        clone.kill();
        assert_eq!(interrupt.check().unwrap_err().code, code::INTERRUPTED);
    }
}
