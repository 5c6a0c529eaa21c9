//! CouchDB's Mango queries, answered by the store's planner and its ordinary indexes.
//!
//! The query language itself is in `diwan_query::mango`. This module parses the requests, chooses the index,
//! continues pages from bookmarks and writes the answers.

mod bookmark;
mod design;
mod explain;
mod find;
mod follow;
mod indexes;
mod names;
mod normalize;
mod request;
mod selector;

pub(crate) use explain::explain;
pub(crate) use find::find;
pub(crate) use follow::{Followed, create, drop_unfit_indexes, follow, follow_soon, remove};
pub(crate) use indexes::{Listed, list, special};
pub(crate) use request::{IndexRequest, bulk_delete_names, read_body};
pub(crate) use selector::{Fields, Selector, conflicts_of};
