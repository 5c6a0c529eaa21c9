//! Endpoints that CouchDB does not have.

pub(crate) mod command;
