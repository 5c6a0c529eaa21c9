//! Diwan's key-value engine over a PostgreSQL server.
//!
//! [`PostgresEngine`] keeps the contract of [`diwan_kv::Engine`] with tables of a schema of its own. One process at a time
//! writes: it holds a [lease], and each of its transactions moves the lease on, so that a process that has lost it writes
//! nothing.
//!
//! - Reads: a [snapshot] is a read-only transaction on a connection of the [pool]. A [scan] reads runs of rows ahead.
//! - Writes: the [committer] [groups](group) waiting batches and [applies](apply) each group as one transaction. When a
//!   connection breaks in it, the lease's row tells whether the group was applied.
//! - [Keys](key) and [values](value) as columns, the [schema](layout), the [statements].
//! - Callers are synchronous threads. They [wait] without the runtime, whose two threads drive the connections.
//!
//! What differs between PostgreSQL and its relatives is in [dialect].

mod apply;
mod committer;
mod connection;
mod dialect;
mod engine;
mod error;
mod group;
mod ingest;
mod key;
mod layout;
mod lease;
mod open;
mod options;
mod pool;
mod scan;
mod server;
mod sizes;
mod snapshot;
mod statements;
mod tls;
mod value;
mod wait;

pub use engine::PostgresEngine;
pub use error::OpenError;
pub use options::{Options, describe};
