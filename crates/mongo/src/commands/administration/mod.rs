//! Administration commands: databases, collections, indexes, parameters, and running operations.

pub(crate) mod coll_mod;
pub(crate) mod compact;
pub(crate) mod configure_fail_point;
pub(crate) mod convert_to_capped;
pub(crate) mod create;
pub(crate) mod create_indexes;
pub(crate) mod current_op;
pub(crate) mod drop;
pub(crate) mod drop_database;
pub(crate) mod drop_indexes;
pub(crate) mod file_md5;
pub(crate) mod fsync;
pub(crate) mod get_default_rw_concern;
pub(crate) mod get_parameter;
pub(crate) mod kill_cursors;
pub(crate) mod kill_op;
pub(crate) mod list_collections;
pub(crate) mod list_databases;
pub(crate) mod list_indexes;
pub(crate) mod rename_collection;
pub(crate) mod set_default_rw_concern;
pub(crate) mod set_parameter;
