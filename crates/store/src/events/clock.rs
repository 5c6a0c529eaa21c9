//! The cluster clock: the times that commits get, in their order, and that replies carry as `operationTime`.

use diwan_value::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A clock that follows the wall clock's seconds, never runs backwards, and gives every commit its own time.
#[derive(Debug)]
pub struct ClusterClock {
    last: AtomicU64,
}

impl ClusterClock {
    /// A clock that is later than `floor`, the time of the newest event that is stored.
    pub(crate) fn new(floor: u64) -> ClusterClock {
        let clock = ClusterClock { last: AtomicU64::new(floor) };
        clock.tick();
        clock
    }

    /// The time of the newest commit.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_bits(self.last.load(Ordering::Relaxed))
    }

    /// The time for a new commit.
    pub fn tick(&self) -> Timestamp {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let floor = Timestamp { seconds: seconds as u32, increment: 1 }.to_bits();
        let next = |last: u64| floor.max(last + 1);
        let last = self.last.update(Ordering::Relaxed, Ordering::Relaxed, next);
        Timestamp::from_bits(next(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_is_later_than_the_one_before() {
        let clock = ClusterClock::new(0);
        let first = clock.tick();
        let second = clock.tick();
        assert!(first < second && clock.now() == second);
    }

    #[test]
    fn a_clock_begins_after_the_newest_event() {
        let future = 1 << 63;
        assert!(ClusterClock::new(future).now().to_bits() > future);
    }
}
