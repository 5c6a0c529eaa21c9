//! Changes, for those who follow them: the rows of a collection's log, word of new ones, and which databases changed.
//!
//! The log is read a run at a time, each from a snapshot of its own: nothing of the engine is held between two runs, and
//! a document that changes meanwhile is told later, in its new place. Changes become visible in the order of their
//! sequences, so a reader that goes on after the last sequence it saw misses none and sees none before its time.
//!
//! Word of changes is given after they are visible. It says that there is something, not what: who is told reads the
//! log, however many there are to be told.

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
