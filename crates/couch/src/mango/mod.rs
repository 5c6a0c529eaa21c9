//! CouchDB's queries: a selector, a sort, a list of fields, over the store's one planner and its ordinary indexes.
//!
//! The language itself lies in `diwan_query::mango`. Here are the requests around it: what they may contain, which index
//! they are answered by, how a page goes on where the one before ended, and how all of that is told.

mod bookmark;
mod design;
mod explain;
mod follow;
mod indexes;
mod names;
mod normalize;
mod request;
mod run;
mod selector;

pub use explain::explain;
pub use follow::{Followed, create, follow, follow_soon, give_way, remove};
pub use indexes::{Listed, list, special};
pub use request::{IndexRequest, bulk_delete_names, read_body};
pub use run::find;
pub use selector::{Fields, Selector, conflicts_of};
