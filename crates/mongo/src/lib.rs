//! The MongoDB face: wire protocol, commands, cursors, sessions.
//!
//! [`connection`] reads a whole message, [`wire`] parses and validates it, [`request`] reads the arguments that all
//! commands take, [`dispatch`] finds the command's row in the table of [`commands`] and calls its function. The reply is
//! sent with one system call. [`server`] holds the state that connections share (cursors, sessions, parameters), and
//! [`monitoring`] the counters, the profiler and the registry of running commands. Everything below the socket is
//! synchronous.

mod commands;
mod connection;
mod dispatch;
mod error;
mod fail_points;
mod monitoring;
mod request;
mod rights;
mod server;
mod sign_in;
pub mod wire;

pub use monitoring::log;
pub use monitoring::totals::{Figures, Totals};
pub use server::Server;
pub use server::options::{Durability, Options, TlsConfigs, Topology};
