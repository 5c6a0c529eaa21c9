//! Cancellation: stops all waits of a job.

use super::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A stop signal. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    stopped: AtomicBool,
    notify: Notify,
}

impl Stop {
    /// Stops all current and future waits.
    pub(crate) fn stop(&self) {
        self.inner.stopped.store(true, Ordering::SeqCst);
        self.inner.notify.notify_waiters();
    }

    /// Whether the signal was given.
    pub(crate) fn is_stopped(&self) -> bool {
        self.inner.stopped.load(Ordering::SeqCst)
    }

    /// Sleeps; fails as soon as the signal is given.
    pub(crate) fn sleep(&self, duration: Duration) -> Result<(), Failure> {
        const STEP: Duration = Duration::from_millis(50);
        let end = Instant::now() + duration;
        while !self.is_stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(STEP));
        }
        Err(Failure::stopped())
    }

    /// Completes when the signal is given.
    pub(crate) async fn stopped(&self) {
        let notified = self.inner.notify.notified();
        tokio::pin!(notified);
        // Register before checking the flag, so that a stop in between is not missed.
        notified.as_mut().enable();
        if !self.is_stopped() {
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_completes_for_early_and_late_waiters() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let stop = Stop::default();
        let other = stop.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            other.stop();
        });
        runtime.block_on(stop.stopped());
        runtime.block_on(stop.stopped());
        assert!(stop.is_stopped());
        thread.join().unwrap();
    }
}
