//! A thread that repeats a task.

use crate::{Error, Result};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The handle of the thread. Dropping it ends the thread, after the present call of the task.
pub(crate) struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Calls `tick` after `first`, and then after each duration that it returns, until it returns none.
    pub fn start(
        name: &str,
        first: Duration,
        mut tick: impl FnMut() -> Option<Duration> + Send + 'static,
    ) -> Result<Self> {
        let (stop, stopped) = channel();
        let run = move || {
            let mut wait = first;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let Some(next) = tick() else { break };
                wait = next;
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run);
        let thread = thread.map_err(|e| Error::io("starting a thread in the background", e))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
