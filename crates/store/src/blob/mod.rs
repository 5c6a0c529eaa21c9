//! Blobs: the bytes of attachments, in chunks. A collection stores equal contents once.
//!
//! An upload goes through a [`BlobWriter`], which uses bounded memory. It ends with a [`StagedBlob`]: the blob is
//! complete and stored, but no document refers to it yet. The batch of a document's edit then adds a
//! [`reference`](mod@reference). The sweeper deletes blobs that have no reference.
//!
//! Invariants:
//! - A blob with a head is complete and never changes. Its chunks exist as long as its head.
//! - A writer that commits a reference keeps the blob alive until the commit has returned: by a [`BlobHold`], or by
//!   another reference of the same document, whose lock it holds. The sweeper skips held blobs, and reads the
//!   references after the holds. So every reference is to an existing blob. In particular, a deduplicated upload ends
//!   with a hold on the older blob, which it takes under the same lock under which it checks that the blob exists.
//! - Every blob that may lack references has a loose mark: an upload sets one with its first chunk, and a write that
//!   removes a reference sets one. So after a kill at any moment the sweeper finds all unreferenced blobs without
//!   reading the others.

pub(crate) mod attachment;
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
pub(crate) use reference::{check_heads, reference, release};
pub use write::{BlobSource, BlobWriter, StagedBlob, error_of};

pub(crate) use hold::{Blobs, Head};
pub(crate) use sweep::{delete_all, sweep};

/// The size of a chunk in bytes. The last chunk of a blob may be shorter.
pub(crate) const CHUNK_BYTES: usize = 128 << 10;
