//! Mango queries, their indexes, and aggregation pipelines.

pub(crate) mod aggregate;
pub(crate) mod find;
pub(crate) mod index;
