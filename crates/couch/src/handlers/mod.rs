//! The handlers, a file for each endpoint or family of endpoints.

pub mod active_tasks;
pub mod all_dbs;
pub mod attachment;
pub mod bulk_docs;
pub mod bulk_get;
pub mod config;
pub mod database;
pub mod dbs_info;
pub mod document;
pub mod ensure_full_commit;
pub mod favicon;
pub mod local;
pub mod membership;
pub mod node;
pub mod replicate;
pub mod revs_diff;
pub mod scheduler;
pub mod session;
pub mod shards;
pub mod up;
pub mod utils;
pub mod uuids;
pub mod welcome;
