//! The CouchDB face: documents, revisions, changes, queries and replication over HTTP.
//!
//! [`http::connection`] parses the head of a request, [`routes`] finds the row of the route table that matches, and the
//! row's handler (under [`handlers`], one file per endpoint) answers with bytes, with rows that are written as the
//! client reads them, or with a feed that waits for changes.
//!
//! # Layers
//! A module names modules of its own row or of rows below it. To read the crate, start at the bottom.
//!
//! | subject | modules |
//! | --- | --- |
//! | the server: its state [`Couch`], start and end of serving | [`server`] |
//! | the table of routes | [`routes`] |
//! | endpoints, in folders by subject | [`handlers`] |
//! | changes feeds | [`feed`] |
//! | who calls and what he may do; `_users` | [`auth`], [`users`] |
//! | edits; Mango queries and indexes | [`edit`], [`mango`] |
//! | design documents and their functions | [`design`] |
//! | documents as JSON; the replicator | [`document`], [`replicator`] |
//! | databases and partitions | [`database`], [`partition`] |
//! | requests, responses and bodies | [`http`] |
//! | errors, settings, names, sequences, ids | [`error`], [`config`], [`settings`], [`names`], [`sequence`], [`uuids`] |
//!
//! Three references point up:
//! - Every layer may name [`Couch`], the state that all requests share; a [`http::Request`] carries it.
//! - Three callers look up a route and call its handler: `http::connection` for a client, the replicator's local peer
//!   for a database of this server, and the rewrite handler.
//! - `edit` and `mango` name each other: an edit drops indexes that cannot hold the document, and an index is defined
//!   by editing a design document.

mod auth;
mod config;
mod database;
mod design;
mod document;
mod edit;
mod error;
mod feed;
mod handlers;
mod http;
mod mango;
mod names;
mod partition;
mod replicator;
mod routes;
mod sequence;
mod server;
mod settings;
mod users;
mod uuids;

pub use config::{Command, Commands, Config, Extra, Report, Reports, TlsConfigs};
pub use http::multipart::Multipart;
pub use replicator::{FollowSettings, Follower};
pub use server::Couch;

/// The version of CouchDB whose interface this is.
pub(crate) const COUCHDB_VERSION: &str = "3.5.0";

/// The name of the only node of the "cluster".
pub(crate) const NODE: &str = "diwan@127.0.0.1";
