//! The CouchDB face: documents, revisions, changes, queries and replication over HTTP.
//!
//! A request takes few hops: [`http::connection`] reads its head, [`routes`] finds its row in the one table, the row's
//! handler (a file each under [`handlers`]) runs on a blocking thread and answers with bytes, with rows that are
//! written as they are read, or with a feed that waits. Everything the two faces share lies below, in the store.

mod config;
mod database;
mod design;
mod document;
pub mod error;
mod feed;
mod handlers;
pub mod http;
mod mango;
mod names;
mod partition;
mod replicator;
mod routes;
mod script_filter;
mod sequence;
mod server;
mod uuids;

pub use config::{Config, Extra};
pub use server::Couch;

/// The version of CouchDB whose interface this is.
pub const COUCHDB_VERSION: &str = "3.5.0";
