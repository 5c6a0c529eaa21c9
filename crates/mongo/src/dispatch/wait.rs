//! Events that delay a reply, or the next run of its command.

use diwan_kv::CommitId;
use diwan_store::Collection;
use diwan_store::events::StreamState;
use diwan_store::replica::Replica;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long after a read without a result a reader lets changes gather before it reads again.
const GATHERING: Duration = Duration::from_millis(5);

/// What a reply waits for.
pub(crate) enum Wait {
    /// Nothing.
    Nothing,
    /// The commit becomes durable.
    Durable(CommitId),
    /// `changed` completes or `until` passes. Then the command runs again.
    Change { until: Instant, changed: Pin<Box<dyn Future<Output = ()> + Send>> },
    /// No reply is sent: the connection is closed.
    Close,
}

impl Wait {
    /// Waits until `collection` has changes after the sequence `seen`, or `notify` is notified.
    pub(crate) fn for_change(
        collection: &Arc<Collection>,
        seen: u64,
        again: bool,
        until: Instant,
        notify: Arc<Notify>,
    ) -> Wait {
        let waker = notify.clone();
        let subscription = collection.on_change(Box::new(move || waker.notify_one()));
        let collection = collection.clone();
        let is_news = move || collection.last_sequence() != seen;
        Wait::Change { until, changed: Box::pin(wait(is_news, notify, subscription, again)) }
    }

    /// Waits until there are events that a change stream has not looked at, or `notify` is notified.
    pub(crate) fn for_event(
        stream: &Arc<StreamState>,
        again: bool,
        until: Instant,
        notify: Arc<Notify>,
    ) -> Wait {
        let waker = notify.clone();
        let subscription = stream.on_event(Box::new(move || waker.notify_one()));
        let stream = stream.clone();
        let is_news = move || stream.has_news();
        Wait::Change { until, changed: Box::pin(wait(is_news, notify, subscription, again)) }
    }

    /// Waits until drivers see another replica set than the one with this version.
    pub(crate) fn for_topology(replica: &Arc<Replica>, seen: i64, until: Instant) -> Wait {
        let notify = Arc::new(Notify::new());
        let waker = notify.clone();
        let subscription = replica.on_change(Box::new(move || waker.notify_one()));
        let replica = replica.clone();
        let is_news = move || replica.version() != seen;
        Wait::Change { until, changed: Box::pin(wait(is_news, notify, subscription, false)) }
    }

    /// Waits until `until`, whatever happens.
    pub(crate) fn for_time(until: Instant) -> Wait {
        Wait::Change { until, changed: Box::pin(std::future::pending()) }
    }
}

/// Waits until there is news. A reader that waits `again`, because the last change did not match its filter, lets changes
/// gather if this one came soon after: in a busy collection it does not run for every write.
async fn wait<S>(is_news: impl Fn() -> bool, notify: Arc<Notify>, subscription: S, again: bool) {
    let begun = Instant::now();
    // A change between the read and the subscription did not call the waker.
    if !is_news() {
        notify.notified().await;
    }
    drop(subscription);
    if again {
        tokio::time::sleep(GATHERING.saturating_sub(begun.elapsed())).await;
    }
}
