//! Endpoints of a database as a whole.

pub(crate) mod changes;
pub(crate) mod compact;
pub(crate) mod database;
pub(crate) mod ensure_full_commit;
pub(crate) mod partition;
pub(crate) mod purge;
pub(crate) mod revs_limit;
pub(crate) mod security;
pub(crate) mod shards;
