//! Limits for blocking threads: separate numbers for requests, streams, uploads and background work.
//!
//! A request has a thread while its handler runs and while a chunk of its answer is written, never while it waits for
//! its client. When no permit is free, work waits as a task, in order of arrival.

use crate::error::Error;
use diwan_store::MAX_WAITING_WRITERS;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

/// How many handlers run at once: those that wait for transactions with their threads, and enough others.
const REQUESTS: usize = MAX_WAITING_WRITERS + 64;
/// How many streamed answers are written at once after their first chunks. The number is small so that many long
/// answers do not delay short requests.
const STREAMS: usize = 16;
/// How many handlers read a long body at once while it arrives. Other uploads are buffered first.
const UPLOADS: usize = 32;
/// How many list functions run at once, each with a thread and a JavaScript context.
const LISTS: usize = 32;
/// How many temporary views are computed at once, each on all cores.
const MAPPERS: usize = 2;
/// How many background jobs run at once.
const BACKGROUND: usize = 8;
/// How many passwords are checked at once, and how many requests wait for that.
const SIGN_INS: usize = 8;
const WAITING_SIGN_INS: usize = 256;
/// How long after a refusal a list function is considered to be waiting: its request retries.
const WANTED: Duration = Duration::from_secs(2);
/// The error reason when a handler panics.
pub const FAULT: &str = "The request failed because of an internal error, which is logged.";

/// The permits.
pub struct Workers {
    requests: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    lists: Arc<Semaphore>,
    mappers: Arc<Semaphore>,
    /// When a list function was last refused a permit.
    list_refused: Mutex<Option<Instant>>,
    background: Arc<Semaphore>,
    sign_ins: Arc<Semaphore>,
    /// The requests that wait to check a password.
    waiting_sign_ins: Arc<Semaphore>,
}

impl Default for Workers {
    fn default() -> Workers {
        let places = |count| Arc::new(Semaphore::new(count));
        Workers {
            requests: places(REQUESTS),
            streams: places(STREAMS),
            uploads: places(UPLOADS),
            lists: places(LISTS),
            mappers: places(MAPPERS),
            list_refused: Mutex::default(),
            background: places(BACKGROUND),
            sign_ins: places(SIGN_INS),
            waiting_sign_ins: places(WAITING_SIGN_INS),
        }
    }
}

impl Workers {
    /// How many threads read the store for waiting feeds at once.
    pub const FEED_READERS: usize = 4;
    /// The number of threads that the runtime must allow, with spares for threads that are about to end.
    pub const THREADS: usize = REQUESTS + STREAMS + BACKGROUND + SIGN_INS + Workers::FEED_READERS + 16;

    /// Runs a handler when a thread is free.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        run_at(&self.requests, work).await
    }

    /// Continues a streamed answer when a thread is free for that.
    pub async fn run_stream<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        run_at(&self.streams, work).await
    }

    /// Checks a password when a thread is free for that. Fails if too many requests wait already.
    pub async fn run_sign_in<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let Ok(_waiting) = self.waiting_sign_ins.try_acquire() else { return Err(crate::auth::busy()) };
        run_at(&self.sign_ins, work).await
    }

    /// Returns a permit to check a password in this thread, if one is free.
    pub fn sign_in(&self) -> Option<OwnedSemaphorePermit> {
        self.sign_ins.clone().try_acquire_owned().ok()
    }

    /// Returns a permit to read a body while it arrives, if one is free.
    pub fn upload(&self) -> Option<OwnedSemaphorePermit> {
        self.uploads.clone().try_acquire_owned().ok()
    }

    /// Returns a permit to run a list function, if one is free.
    pub fn list(&self) -> Option<OwnedSemaphorePermit> {
        let place = self.lists.clone().try_acquire_owned().ok();
        if place.is_none() {
            *self.list_refused.lock() = Some(Instant::now());
        }
        place
    }

    /// Returns a permit to compute a temporary view, if one is free.
    pub fn mapper(&self) -> Option<OwnedSemaphorePermit> {
        self.mappers.clone().try_acquire_owned().ok()
    }

    /// Whether list functions are waiting for a permit.
    pub fn lists_are_wanted(&self) -> bool {
        self.list_refused.lock().is_some_and(|refused| refused.elapsed() < WANTED)
    }

    /// Runs background work when a thread is free. Call it within the runtime.
    pub fn beside(&self, work: impl FnOnce() + Send + 'static) {
        let places = self.background.clone();
        tokio::spawn(async move {
            // The semaphore is closed when the server shuts down.
            let Ok(place) = places.acquire_owned().await else { return };
            let done = spawn_blocking(move || {
                let _place = place;
                work();
            });
            // A panic is logged where it happens.
            let _ = done.await;
        });
    }
}

/// Runs work on a blocking thread when a permit is free.
async fn run_at<T: Send + 'static>(
    places: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let closing = || Error::internal("The server is closing.");
    let place = places.clone().acquire_owned().await.map_err(|_| closing())?;
    let work = move || {
        // Release the permit when the thread is done, even if the client has left.
        let _place = place;
        work()
    };
    spawn_blocking(work).await.map_err(|error| match error.is_panic() {
        true => Error::internal(FAULT),
        false => closing(),
    })
}
