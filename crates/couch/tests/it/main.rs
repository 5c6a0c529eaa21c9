//! Tests of the CouchDB face through a socket.

mod attachments;
mod auth;
mod bulk;
mod changes;
mod compat;
mod config;
mod cors;
mod diwan;
mod documents;
mod fake_couchdb;
mod filters;
mod full;
mod functions;
mod jsonp;
mod lists;
mod local;
mod queries;
mod refusals;
mod replication;
mod replication_rights;
mod security;
mod server;
mod setup;
mod streams;
mod users_db;
mod views;
