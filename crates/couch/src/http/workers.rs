//! The threads that may block: so many for requests, so many for what goes on beside them.
//!
//! A request has a thread while its handler computes or reads the store, and while it writes a chunk of its answer; never
//! while it waits for its client. What finds no free place waits as a task, in the order in which it came.

use crate::error::Error;
use crate::feed;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

/// How many requests are worked on at once.
const REQUESTS: usize = 128;
/// How many answers are written on at once, beyond their first chunks: so few that many long answers do
/// not keep those waiting who ask for little.
const STREAMS: usize = 16;
/// How many handlers at once read a long body while it comes; others begin when theirs has come.
const UPLOADS: usize = 32;
/// How many functions show lists at once, each with a thread and a context of its own.
const LISTS: usize = 32;
/// How many temporary views are made at once, each by all cores.
const MAPPERS: usize = 2;
/// How many jobs run at once that no request waits for.
const BACKGROUND: usize = 8;
/// How long after a refusal somebody still waits, as requests try again.
const WANTED: Duration = Duration::from_secs(2);
/// What is told when a handler panics.
pub const FAULT: &str = "The request met a fault of the server, which is logged.";

/// The places of the threads.
pub struct Workers {
    requests: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    lists: Arc<Semaphore>,
    mappers: Arc<Semaphore>,
    /// When a list was last refused a place.
    list_refused: Mutex<Option<Instant>>,
    background: Arc<Semaphore>,
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
        }
    }
}

impl Workers {
    /// How many threads that is at most, with some to spare for those that are about to end.
    pub const THREADS: usize = REQUESTS + STREAMS + BACKGROUND + feed::READERS + 16;

    /// Works on a request, when a thread is free.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        run_at(&self.requests, work).await
    }

    /// Writes on an answer that was begun, when a thread is free for that.
    pub async fn run_stream<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        run_at(&self.streams, work).await
    }

    /// A place for a handler that reads its body while it comes, if one is free.
    pub fn upload(&self) -> Option<OwnedSemaphorePermit> {
        self.uploads.clone().try_acquire_owned().ok()
    }

    /// A place for a function that shows a list, if one is free.
    pub fn list(&self) -> Option<OwnedSemaphorePermit> {
        let place = self.lists.clone().try_acquire_owned().ok();
        if place.is_none() {
            *self.list_refused.lock() = Some(Instant::now());
        }
        place
    }

    /// A place for making a temporary view, if one is free.
    pub fn mapper(&self) -> Option<OwnedSemaphorePermit> {
        self.mappers.clone().try_acquire_owned().ok()
    }

    /// Whether others wait for the place of a list.
    pub fn lists_are_wanted(&self) -> bool {
        self.list_refused.lock().is_some_and(|refused| refused.elapsed() < WANTED)
    }

    /// Does what no request waits for, soon. To be called on a thread of the runtime.
    pub fn beside(&self, work: impl FnOnce() + Send + 'static) {
        let places = self.background.clone();
        tokio::spawn(async move {
            // A closed semaphore is the end of the server.
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

/// Does work on a thread, when one of these places is free.
async fn run_at<T: Send + 'static>(
    places: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let closing = || Error::internal("The server is closing.");
    let place = places.clone().acquire_owned().await.map_err(|_| closing())?;
    let work = move || {
        // The place is free when the thread is, also where the client has gone meanwhile.
        let _place = place;
        work()
    };
    spawn_blocking(work).await.map_err(|error| match error.is_panic() {
        true => Error::internal(FAULT),
        false => closing(),
    })
}
