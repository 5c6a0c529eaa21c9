//! The MongoDB face: wire protocol, commands, cursors, sessions.
//!
//! A message goes through few hands: [`connection`] reads it whole, [`wire`] views and validates it, [`dispatch`]
//! finds its row in the table of [`commands`] and runs it in place, and the reply goes out with one system call.
//! Everything below the socket is synchronous.

mod arguments;
mod client;
mod clock;
mod commands;
mod concerns;
mod connection;
mod cursors;
mod deferred;
mod dispatch;
mod error;
mod exhaust;
mod fields;
mod identity;
mod input;
pub mod log;
mod machine;
mod metrics;
mod operations;
mod options;
mod parameters;
mod profiler;
mod request;
mod server;
mod sessions;
mod usage;
mod weight;
pub mod wire;

pub use identity::VERSION;
pub use machine::resident_bytes;
pub use options::{Durability, Options, Topology};
pub use server::Server;
