//! Endpoints of the server as a whole.

pub(crate) mod all_dbs;
pub(crate) mod db_updates;
pub(crate) mod dbs_info;
pub(crate) mod favicon;
pub(crate) mod session;
pub(crate) mod up;
pub(crate) mod uuids;
pub(crate) mod web_interface;
pub(crate) mod welcome;
