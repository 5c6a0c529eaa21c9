//! Tests of the MongoDB face over a socket, against a whole server in this process.

mod callers;
mod commands;
mod compat;
mod connections;
mod cursors;
mod errors;
mod exhaust;
mod full;
mod ownership;
mod profiler;
mod retries;
mod rights;
mod sign_in;
mod statistics;
mod users;
