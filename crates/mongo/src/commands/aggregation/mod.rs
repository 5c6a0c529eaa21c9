//! Aggregation commands.

pub(crate) mod aggregate;
pub(crate) mod count;
pub(crate) mod distinct;
