//! Endpoints of documents and attachments, single and in bulk.

pub(crate) mod all_docs;
pub(crate) mod attachment;
pub(crate) mod bulk_docs;
pub(crate) mod bulk_get;
pub(crate) mod document;
pub(crate) mod local;
pub(crate) mod transaction;
