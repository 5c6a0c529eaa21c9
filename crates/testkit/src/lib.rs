//! In-process servers for tests, and small clients for both protocols.
//!
//! A [`TestServer`] listens on a free port, in memory or in its own temporary directory, and stops when it is dropped.
//! A [`TestClient`] sends commands and returns replies unchanged. [`TestCouch`] and [`HttpClient`] do the same for
//! HTTP.

mod client;
mod couch;
mod http;
mod scram;
mod server;

pub use client::{Reply, TestClient};
pub use couch::TestCouch;
pub use http::{HttpClient, HttpReply};
pub use scram::{ScramClient, digest};
pub use server::TestServer;
