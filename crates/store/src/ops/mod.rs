//! The operations that the faces call. Each parses its arguments, plans, and executes.
//!
//! The arguments are documents as the client sent them. [`Scope`] holds the arguments that all operations have.

mod aggregate;
mod by_name;
mod collections;
mod convert_to_capped;
mod count;
mod delete;
mod distinct;
mod explain;
mod find;
mod find_and_modify;
mod query;
mod replace;
mod scope;
mod target;
mod temporary;
mod update;

pub use aggregate::Aggregate;
pub use count::Count;
pub use delete::{Delete, Deleted};
pub use distinct::Distinct;
pub use explain::Verbosity;
pub use find::Find;
pub use find_and_modify::{FindAndModify, Modified, Modify};
pub use query::{Position, Query, Running};
pub use scope::Scope;
pub(crate) use temporary::{is_temporary, maker_of_temporary};
pub use update::{Update, Updated};
