//! Following changes: the rows of a collection's change log, callbacks after new changes, and the log of database
//! events.
//!
//! A follower reads the log a run at a time, each run from a new snapshot. It holds nothing of the engine between two
//! runs. A document that changes between two runs appears in a later one, at its new sequence. Changes become visible
//! in the order of their sequences, so a follower that continues after the last sequence it has read misses no change.
//!
//! Callbacks run after the changes are visible. They do not carry the changes: a follower reads the log.

mod databases;
mod rows;
mod watch;

#[cfg(test)]
mod tests;

pub use databases::{DatabaseEvent, DatabaseEventKind};
pub use rows::ChangeRow;
pub use watch::Subscription;

pub(crate) use databases::{DatabaseFeed, UpdateFlag};
pub(crate) use watch::Watchers;
