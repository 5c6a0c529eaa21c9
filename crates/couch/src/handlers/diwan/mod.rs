//! Endpoints that CouchDB does not have.

pub(crate) mod audit;
pub(crate) mod command;
pub(crate) mod conflicts;
pub(crate) mod map;
pub(crate) mod sample;
pub(crate) mod slow;
pub(crate) mod status;
