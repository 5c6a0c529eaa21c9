//! Query and write commands.

pub(crate) mod bulk_write;
pub(crate) mod delete;
pub(crate) mod find;
pub(crate) mod find_and_modify;
pub(crate) mod get_more;
pub(crate) mod insert;
pub(crate) mod update;
