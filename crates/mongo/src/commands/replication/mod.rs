//! Replication commands: the server introduces itself as the only member of a replica set.

pub(crate) mod hello;
pub(crate) mod repl_set_get_config;
pub(crate) mod repl_set_get_status;
