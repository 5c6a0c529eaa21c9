//! The handlers, a file for each endpoint or family of endpoints.

pub mod all_dbs;
pub mod config;
pub mod database;
pub mod dbs_info;
pub mod ensure_full_commit;
pub mod favicon;
pub mod membership;
pub mod node;
pub mod session;
pub mod shards;
pub mod up;
pub mod utils;
pub mod uuids;
pub mod welcome;
