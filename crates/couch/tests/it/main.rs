//! Tests of the CouchDB face through a socket.

mod attachments;
mod bulk;
mod changes;
mod compat;
mod documents;
mod fake_couchdb;
mod filters;
mod full;
mod functions;
mod lists;
mod local;
mod queries;
mod refusals;
mod replication;
mod server;
mod setup;
mod streams;
mod views;
