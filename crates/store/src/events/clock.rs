//! The cluster clock: the times that commits get, in their order, and that replies carry as `operationTime`.

use diwan_value::Timestamp;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How far the clock moves, in seconds, before its time is noted.
pub(super) const NOTED_EVERY_SECONDS: u32 = 10;

/// More than the most commits in a microsecond.
const COUNTS_PER_MICROSECOND: u32 = 4;

thread_local! {
    /// The time of this thread's last commit.
    static OWN: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A clock that follows the wall clock's seconds, never runs backwards, and gives every commit its own time.
#[derive(Debug)]
pub struct ClusterClock {
    last: AtomicU64,
    /// Other processes have clocks of their own: the counter within a second follows the wall clock, too.
    is_shared: bool,
}

impl ClusterClock {
    /// A clock that is later than every time that was given out before: than that of the newest event, than those of an
    /// earlier run in the same second, and than `noted` by more than the clock moves between two notes.
    pub(crate) fn new(newest: Timestamp, noted: Timestamp, is_shared: bool) -> ClusterClock {
        let now = fine_time();
        // If the wall clock was set back, it does not tell how far the clock had come.
        let noted = match noted > now {
            true => {
                Timestamp { seconds: noted.seconds.saturating_add(2 * NOTED_EVERY_SECONDS), increment: 0 }
            }
            false => noted,
        };
        ClusterClock { last: AtomicU64::new(newest.max(noted).max(now).to_bits() + 1), is_shared }
    }

    /// The time of the newest commit.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_bits(self.last.load(Ordering::Relaxed))
    }

    /// The time for a new commit.
    pub fn tick(&self) -> Timestamp {
        let floor = match self.is_shared {
            true => fine_time(),
            false => Timestamp { seconds: since_1970().as_secs() as u32, increment: 1 },
        }
        .to_bits();
        let next = |last: u64| floor.max(last + 1);
        let last = self.last.update(Ordering::Relaxed, Ordering::Relaxed, next);
        let time = next(last);
        OWN.set(Some(time));
        Timestamp::from_bits(time)
    }

    /// Moves the clock on to a time that another clock has given out.
    pub fn advance(&self, time: Timestamp) {
        self.last.fetch_max(time.to_bits(), Ordering::Relaxed);
    }

    /// The time of the last commit that this thread has made since this was called last. The clock may be ahead of it, by
    /// the commits of other threads.
    pub fn take_own() -> Option<Timestamp> {
        OWN.take().map(Timestamp::from_bits)
    }
}

/// The wall clock's time. No process commits so often that its counter is ahead of this one's.
fn fine_time() -> Timestamp {
    let wall = since_1970();
    Timestamp { seconds: wall.as_secs() as u32, increment: COUNTS_PER_MICROSECOND * wall.subsec_micros() }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Timestamp = Timestamp { seconds: 0, increment: 0 };

    #[test]
    fn tick_is_later_than_the_one_before() {
        let clock = ClusterClock::new(NEVER, NEVER, false);
        let first = clock.tick();
        let second = clock.tick();
        assert!(first < second && clock.now() == second);
    }

    #[test]
    fn tick_is_later_than_a_time_of_another_clock() {
        let clock = ClusterClock::new(NEVER, NEVER, false);
        let ahead = Timestamp { seconds: clock.now().seconds + 100, increment: 7 };
        clock.advance(ahead);
        assert!(clock.tick() > ahead);
        clock.advance(NEVER);
        assert!(clock.now() > ahead);
    }

    #[test]
    fn the_own_time_is_that_of_the_threads_last_commit() {
        let clock = ClusterClock::new(NEVER, NEVER, false);
        let own = clock.tick();
        std::thread::scope(|scope| drop(scope.spawn(|| clock.tick())));
        assert!(clock.now() > own);
        assert_eq!((ClusterClock::take_own(), ClusterClock::take_own()), (Some(own), None));
    }

    #[test]
    fn a_clock_begins_after_the_newest_event_and_after_what_was_noted() {
        let future = Timestamp { seconds: u32::MAX / 2 + 7, increment: 3 };
        assert!(ClusterClock::new(future, NEVER, false).now() > future);
        assert!(ClusterClock::new(NEVER, future, false).now().seconds > future.seconds + NOTED_EVERY_SECONDS);
    }

    #[test]
    fn a_clock_that_is_opened_again_in_the_same_second_does_not_repeat_times() {
        let first = ClusterClock::new(NEVER, NEVER, false);
        for _ in 0..1000 {
            first.tick();
        }
        std::thread::sleep(Duration::from_millis(2));
        assert!(ClusterClock::new(NEVER, NEVER, false).now() > first.now());
    }
}
