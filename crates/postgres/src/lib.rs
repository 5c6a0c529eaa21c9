//! Diwan's key-value engine over a PostgreSQL server.
//!
//! [`PostgresEngine`] keeps the contract of [`diwan_kv::Engine`] with tables of a schema of its own. Any number of processes
//! may have it open; [`diwan_kv::Peers`] says what that means to the layers above.
//!
//! - Reads: a [snapshot] is a read-only transaction on a connection of the [pool]. A [scan] reads runs of rows ahead.
//! - Writes: the [committer] [groups](group) waiting batches and [applies](apply) each group as one transaction, which moves
//!   the [head] on. When a connection breaks in it, the engine [finds out](settle) whether the group was applied.
//! - Other processes: the [journal] has the keys of each group. [`following`] reads it, woken by the [listener].
//! - [Keys](key) and [values](value) as columns, the [schema](layout), the [statements].
//! - Callers are synchronous threads. They [wait] without the runtime, whose two threads drive the connections.
//!
//! What a [session] is set to, and which servers are refused.

mod apply;
mod committer;
mod connection;
mod engine;
mod error;
mod following;
mod group;
mod head;
mod ingest;
mod journal;
mod key;
mod layout;
mod lease;
mod listener;
mod locks;
mod open;
mod options;
mod pool;
mod scan;
mod server;
mod session;
mod settle;
mod sizes;
mod snapshot;
mod statements;
mod tls;
mod value;
mod wait;

pub use engine::PostgresEngine;
pub use error::OpenError;
pub use options::{Options, describe};
