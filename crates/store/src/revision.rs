//! Revisions: a generation and a hash, minted by every write.
//!
//! The hash depends on the parent revision, on whether the document is deleted, and on its bytes, so that the same
//! edit of the same parent gives the same revision on every server. A first revision is never stored: it is computed
//! from the document when somebody asks.

use diwan_value::Doc;
use std::fmt;

/// One revision of a document. Ordered as conflicts are won: by generation, then by hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// How many edits led here, from 1.
    pub generation: u32,
    /// 128 bits that identify the edit.
    pub hash: [u8; 16],
}

impl Revision {
    /// The first revision of a document.
    pub fn first(doc: Doc<'_>) -> Revision {
        Revision { generation: 1, hash: hash(None, Some(doc)) }
    }

    /// The revision that follows this one with a new body, or with a deletion.
    pub fn child(&self, doc: Option<Doc<'_>>) -> Revision {
        Revision { generation: self.generation.saturating_add(1), hash: hash(Some(self), doc) }
    }
}

/// The first 128 bits of BLAKE3 over: the parent's generation (4 bytes, big-endian, 0 for none) and hash, one byte
/// that is 1 for a deletion, and the document's bytes.
fn hash(parent: Option<&Revision>, doc: Option<Doc<'_>>) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&parent.map_or(0, |parent| parent.generation).to_be_bytes());
    hasher.update(&parent.map_or([0; 16], |parent| parent.hash));
    hasher.update(&[u8::from(doc.is_none())]);
    if let Some(doc) = doc {
        hasher.update(doc.as_bytes());
    }
    let mut out = [0; 16];
    out.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    out
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.generation)?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    #[test]
    fn the_same_edit_gives_the_same_revision() {
        let (one, two) = (doc! { "_id": 1, "a": 1 }, doc! { "_id": 1, "a": 2 });
        let first = Revision::first(one.as_doc());
        assert_eq!(first, Revision::first(one.as_doc()));
        assert_eq!(first.child(Some(two.as_doc())), first.child(Some(two.as_doc())));
        assert_ne!(first.child(Some(two.as_doc())), first.child(None));
        assert_ne!(first.child(Some(one.as_doc())).hash, first.hash);
        assert_eq!(first.child(None).generation, 2);
    }
}
