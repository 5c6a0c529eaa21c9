//! Tests of the MongoDB face over a socket, against a whole server in this process.

mod commands;
mod compat;
mod connections;
mod cursors;
mod errors;
mod exhaust;
mod full;
mod profiler;
mod retries;
mod statistics;
