//! In-process servers for tests, and a client that speaks just enough of the protocol to ask them.
//!
//! A [`TestServer`] listens on a free port, in memory or in a temporary directory of its own, and ends when it is
//! dropped. A [`TestClient`] sends a command and gives the reply as it came. [`TestCouch`] and [`HttpClient`] are the
//! same for HTTP.

mod client;
mod couch;
mod http;
mod server;

pub use client::{Reply, TestClient};
pub use couch::TestCouch;
pub use http::{HttpClient, HttpReply};
pub use server::TestServer;
