//! The administration of the server: setup, nodes, settings and running tasks.

pub(crate) mod active_tasks;
mod admins;
pub(crate) mod cluster_setup;
pub(crate) mod config;
pub(crate) mod membership;
pub(crate) mod node;
