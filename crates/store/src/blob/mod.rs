//! Attachments' bytes: blobs, stored in chunks, once for each content of a collection.

pub mod attachment;
mod reference;

pub use attachment::{Attachment, BlobId, Encoding};
pub use reference::{reference, release, replace};
