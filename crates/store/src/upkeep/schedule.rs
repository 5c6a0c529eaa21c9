//! Tasks that share one thread. A task that is due works for one slice of time. None can stop or delay the others.

use crate::error::Result;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a task works before the others have their turn.
const SLICE: Duration = Duration::from_millis(100);
/// The shortest wait after a failure: a failed task usually fails again, and each failure is logged.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// How far a task has come in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All work that is due is done.
    Done,
    /// The slice ended before all work was done.
    More,
}

/// Work that is repeated at an interval.
pub(super) trait Task: Send {
    /// Its name in the log.
    fn name(&self) -> &'static str;

    /// Whether each process that has the store open does the task for itself. Otherwise one does it for all.
    fn is_for_each_process(&self) -> bool {
        false
    }

    /// How long a task that is done waits until it is due again.
    fn interval(&self) -> Duration;

    /// Works until everything is done or the slice is over. After an error it is called again when the task is next due.
    fn work(&mut self, slice: &Slice<'_>) -> Result<Progress>;
}

/// The time that a task may work before it must return.
pub(super) struct Slice<'a> {
    end: Instant,
    stopped: &'a AtomicBool,
}

impl Slice<'_> {
    /// Whether the task must return, so that the others can work.
    pub fn is_over(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || Instant::now() >= self.end
    }
}

#[cfg(test)]
impl Slice<'static> {
    /// A slice that is long enough for any test.
    pub fn endless() -> Slice<'static> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Slice { end: Instant::now() + Duration::from_secs(1_000_000), stopped: &NEVER }
    }
}

/// The tasks, and when each worked last.
pub(super) struct Schedule {
    tasks: Vec<Slot>,
}

struct Slot {
    task: Box<dyn Task>,
    /// When it last worked.
    since: Instant,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Done,
    /// The last slice ended before all work was done.
    More,
    Failed,
}

impl Slot {
    fn is_due(&self, now: Instant) -> bool {
        let wait = match self.state {
            State::Done => self.task.interval(),
            State::More => return true,
            State::Failed => self.task.interval().max(RETRY_AFTER),
        };
        now >= self.since + wait
    }
}

impl Schedule {
    /// Each task is first due one interval after `now`.
    pub fn new(tasks: Vec<Box<dyn Task>>, now: Instant) -> Schedule {
        let slot = |task| Slot { task, since: now, state: State::Done };
        Schedule { tasks: tasks.into_iter().map(slot).collect() }
    }

    /// Gives each task that is due at `now` one slice; if another process leads, only those that each does. Returns `More` if a task was not finished.
    pub fn round(&mut self, now: Instant, leads: bool, stopped: &AtomicBool) -> Progress {
        for slot in &mut self.tasks {
            let is_own = leads || slot.task.is_for_each_process();
            if !is_own || !slot.is_due(now) || stopped.load(Ordering::Relaxed) {
                continue;
            }
            let slice = Slice { end: Instant::now() + SLICE, stopped };
            slot.since = now;
            slot.state = match isolated(slot.task.name(), None, || slot.task.work(&slice)) {
                Some(Progress::Done) => State::Done,
                Some(Progress::More) => State::More,
                None => State::Failed,
            };
        }
        let more = self
            .tasks
            .iter()
            .any(|slot| slot.state == State::More && (leads || slot.task.is_for_each_process()));
        if more { Progress::More } else { Progress::Done }
    }
}

/// Runs a part of a task, for one collection if there is a name. Logs an error or a panic, and then returns `None`.
pub(super) fn isolated<T>(
    task: &str,
    collection: Option<&str>,
    part: impl FnOnce() -> Result<T>,
) -> Option<T> {
    let error = match catch_unwind(AssertUnwindSafe(part)) {
        Ok(Ok(done)) => return Some(done),
        Ok(Err(error)) => error.to_string(),
        // The panic hook has printed the place.
        Err(_) => "it panicked".to_owned(),
    };
    match collection {
        Some(collection) => tracing::error!(task, collection, %error, "upkeep failed in a collection"),
        None => tracing::error!(task, %error, "upkeep failed"),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    struct Fake<F> {
        calls: Arc<AtomicUsize>,
        work: F,
    }

    impl<F: FnMut() -> Result<Progress> + Send> Task for Fake<F> {
        fn name(&self) -> &'static str {
            "fake"
        }

        fn interval(&self) -> Duration {
            Duration::from_secs(1)
        }

        fn work(&mut self, _: &Slice<'_>) -> Result<Progress> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            (self.work)()
        }
    }

    fn fake(work: impl FnMut() -> Result<Progress> + Send + 'static) -> (Box<dyn Task>, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        (Box::new(Fake { calls: calls.clone(), work }), calls)
    }

    #[test]
    fn failing_and_endless_tasks_do_not_delay_the_others() {
        let (failing, failures) = fake(|| Err(Error::Damaged("on purpose".to_owned())));
        let (panicking, panics) = fake(|| panic!("a task of a test panics"));
        let (endless, slices) = fake(|| Ok(Progress::More));
        let (good, calls) = fake(|| Ok(Progress::Done));
        let start = Instant::now();
        let mut schedule = Schedule::new(vec![failing, panicking, endless, good], start);
        let stopped = AtomicBool::new(false);
        assert_eq!(schedule.round(start, true, &stopped), Progress::Done);
        assert_eq!(slices.load(Ordering::Relaxed), 0, "nothing is due yet");
        for second in 1..=10 {
            let progress = schedule.round(start + Duration::from_secs(second), true, &stopped);
            assert_eq!(progress, Progress::More);
        }
        assert_eq!(slices.load(Ordering::Relaxed), 10);
        assert_eq!(calls.load(Ordering::Relaxed), 10);
        // A failed task is not tried again at once.
        assert_eq!((failures.load(Ordering::Relaxed), panics.load(Ordering::Relaxed)), (1, 1));
        schedule.round(start + Duration::from_secs(61), true, &stopped);
        assert_eq!((failures.load(Ordering::Relaxed), panics.load(Ordering::Relaxed)), (2, 2));
        stopped.store(true, Ordering::Relaxed);
        schedule.round(start + Duration::from_secs(200), true, &stopped);
        assert_eq!(calls.load(Ordering::Relaxed), 11);
    }
}
