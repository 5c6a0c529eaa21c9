//! The end of a job, as everything that waits for something hears of it.

use super::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Tells those who wait that they need not wait longer. Clones are of the same end.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    stopped: AtomicBool,
    notify: Notify,
}

impl Stop {
    /// Ends the wait of all, for ever.
    pub fn stop(&self) {
        self.inner.stopped.store(true, Ordering::SeqCst);
        self.inner.notify.notify_waiters();
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.inner.stopped.load(Ordering::SeqCst)
    }

    /// Waits, unless it is stopped.
    pub fn sleep(&self, duration: Duration) -> Result<(), Failure> {
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

    /// Completes when it is stopped.
    pub async fn stopped(&self) {
        let notified = self.inner.notify.notified();
        tokio::pin!(notified);
        // Registered before the flag is looked at: a stop in between is not missed.
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
    fn waiters_are_woken_before_and_after() {
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
