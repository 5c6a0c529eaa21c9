//! The handlers, in folders by subject. An endpoint's file has the endpoint's name; the table in `routes.rs` leads to it.
//!
//! - `server`: the server as a whole, such as `/_all_dbs` and `/_uuids`.
//! - `administration`: setup, nodes, settings and running tasks.
//! - `databases`: `/{db}` and its settings, the changes feed, partitions, maintenance.
//! - `documents`: documents and attachments, single, in lists and in bulk.
//! - `queries`: `_find`, `_explain`, `_index` and `_aggregate`.
//! - `diwan`: what only this server has, below `/_diwan`; [docs/http-diwan.md](../../../../docs/http-diwan.md) describes it.
//! - `design`: views, and the show, list, update and rewrite functions of design documents.
//! - `follow`: what a follower of this server asks.
//! - `replication`: `_replicate`, `_scheduler` and `_revs_diff`.
//!
//! `listing` holds what several listings of ids share.

pub(crate) mod administration;
pub(crate) mod databases;
pub(crate) mod design;
pub(crate) mod diwan;
pub(crate) mod documents;
pub(crate) mod follow;
mod listing;
pub(crate) mod queries;
pub(crate) mod replication;
pub(crate) mod server;
