//! Endpoints of design documents: views, and functions that answer requests.

pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod rewrite;
pub(crate) mod show;
pub(crate) mod update;
pub(crate) mod view;
