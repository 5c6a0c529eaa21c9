//! Attachments' bytes: blobs, stored once for each content of a collection, in chunks.
//!
//! An upload goes through a [`BlobWriter`] of bounded memory. Its end is a [`StagedBlob`]: complete and in the store, but
//! nobody's yet. A document's batch then [`reference`](mod@reference)s it. What no stored body refers to is swept away.
//!
//! Invariants:
//! - A blob with a head is complete and never changes; its chunks are there as long as its head is.
//! - Whoever commits a reference keeps the blob alive until the commit has returned: by a [`BlobHold`], or by another
//!   reference of the same document, whose lock it has. The sweeper leaves alone what is held, and looks for references
//!   after it looked at the holds; so no reference is ever to a blob that has gone. In particular a deduplicated upload
//!   ends with a hold on the older blob, taken together with the look whether it is there.
//! - Every blob that may lack references has a loose mark: an upload from before its first chunk on, and each blob that
//!   lost a reference. So after a kill at any moment the sweeper finds what is left over, without looking at the rest.

pub mod attachment;
mod hold;
mod read;
mod reference;
mod sweep;
mod write;

#[cfg(test)]
mod tests;

pub use attachment::{Attachment, BlobId, Encoding, THIS_EDIT};
pub use hold::{BlobHold, BlobTotals};
pub use read::{BlobForm, BlobReader};
pub use reference::{reference, release};
pub use write::{BlobSource, BlobWriter, StagedBlob, error_of, is_compressible};

pub(crate) use hold::{Blobs, Head};
pub(crate) use sweep::{delete_all, sweep};

/// How many bytes a chunk has, the last of a blob excepted.
pub(crate) const CHUNK_BYTES: usize = 128 << 10;
