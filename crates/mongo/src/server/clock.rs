//! The logical clock, whose times replies carry as `operationTime` and `$clusterTime`.

use diwan_value::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A clock that follows the wall clock's seconds, never runs backwards, and gives every write its own time.
#[derive(Debug)]
pub(crate) struct Clock {
    last: AtomicU64,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let clock = Clock { last: AtomicU64::new(0) };
        clock.tick();
        clock
    }

    /// The time of the newest write.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_bits(self.last.load(Ordering::Relaxed))
    }

    /// The time for a new write.
    pub(crate) fn tick(&self) -> Timestamp {
        let seconds = unix_millis() / 1000;
        let floor = Timestamp { seconds: seconds as u32, increment: 1 }.to_bits();
        let next = |last: u64| floor.max(last + 1);
        let last = self.last.update(Ordering::Relaxed, Ordering::Relaxed, next);
        Timestamp::from_bits(next(last))
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn unix_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_is_later_than_the_one_before() {
        let clock = Clock::new();
        let first = clock.tick();
        let second = clock.tick();
        assert!(first < second && clock.now() == second);
    }
}
