//! Endpoints of the replicator, and those that replicators ask.

pub(crate) mod replicate;
pub(crate) mod revs_diff;
pub(crate) mod scheduler;
