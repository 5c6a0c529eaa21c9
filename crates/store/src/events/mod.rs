//! Events: what change streams show. Every change of a recorded collection, in the order of commits.
//!
//! A change is recorded only where somebody wants it: a [scope](EventScope) is recorded from the first stream that is opened
//! on it until some time after the last one is closed. The change log of a collection is another thing: it holds the newest
//! change of each document, for ever, and costs no image.
//!
//! Reading order: `position` and `clock`; `diff` and `event`, what one change says; `scope` and `recordings`, what is recorded;
//! `log`, which orders, stores and reads events; `recording`, which begins and ends it; `trim`, which deletes old events;
//! `shape`, the documents that clients see; `stream`, which reads them, and `output`, which checks and splits them; `readers`
//! and `interest`, who is woken; `oplog`, the events in another form.

mod clock;
mod diff;
mod event;
mod interest;
mod log;
mod oplog;
mod output;
mod position;
mod readers;
mod recording;
mod recordings;
mod scope;
mod shape;
mod stream;
#[cfg(test)]
mod tests;
mod trim;

pub use clock::ClusterClock;
pub(crate) use event::{DocumentChange, Draft};
pub use event::{Event, EventKind};
pub(crate) use log::{Begun, EventLog, EventOrigin};
pub use oplog::is_oplog;
pub use position::{Position, Token};
pub use readers::EventSubscription;
pub use recording::Retention;
pub use recordings::StreamLease;
pub(crate) use recordings::check_stored;
pub use scope::EventScope;
pub use stream::{OpenStream, StreamState};
pub(crate) use trim::trim;
