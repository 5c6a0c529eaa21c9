//! Revisions: a generation and a hash. Every write mints one. The [`tree`] holds all revisions of a document.
//!
//! The hash depends on the parent revision, on whether the document is deleted, on its bytes and on its attachments. So
//! the same edit of the same parent gives the same revision on every server. A first revision is not stored: it is
//! computed from the document when it is needed. Revisions of other servers may have a short text in place of the hash.

pub mod tree;

use crate::blob::attachment;
use diwan_value::{Doc, json};
use std::fmt;

/// One revision of a document. The order decides which of two conflicting revisions wins: by generation, then by hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// How many edits led to this revision, itself included.
    pub generation: u32,
    /// 128 bits that identify the edit: a hash, or a short text of another server or a user ([`json::parse_hash`]).
    pub hash: [u8; 16],
}

impl Revision {
    /// The first revision of a document.
    pub fn first(doc: Doc<'_>) -> Revision {
        Revision::mint(None, false, Some(doc), &[])
    }

    /// The revision that follows this one with a new body, or with a deletion.
    pub fn child(&self, doc: Option<Doc<'_>>) -> Revision {
        Revision::mint(Some(self), doc.is_none(), doc, &[])
    }

    /// The revision of an edit. `attachments` is their encoded list, empty if there are none.
    pub(crate) fn mint(
        parent: Option<&Revision>,
        deleted: bool,
        doc: Option<Doc<'_>>,
        attachments: &[u8],
    ) -> Revision {
        let generation = parent.map_or(1, |parent| parent.generation.saturating_add(1));
        Revision { generation, hash: hash(parent, deleted, doc, attachments) }
    }

    /// Parses the form that [`fmt::Display`] writes: the generation, a hyphen, and 32 hexadecimal digits or a short
    /// text.
    pub fn parse(text: &str) -> Option<Revision> {
        let (generation, hash) = text.split_once('-')?;
        if !generation.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let generation = generation.parse().ok().filter(|&generation| generation > 0)?;
        Some(Revision { generation, hash: json::parse_hash(hash)? })
    }

    /// Appends what [`fmt::Display`] writes.
    pub fn push(&self, out: &mut Vec<u8>) {
        let mut digits = [0; 11];
        let mut at = digits.len() - 1;
        digits[at] = b'-';
        let mut rest = self.generation;
        while at > 0 {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        out.extend_from_slice(&digits[at..]);
        json::push_hash(out, &self.hash);
    }
}

/// The first 128 bits of BLAKE3 over: the parent's generation (4 bytes, big-endian, 0 for none) and hash, one byte
/// that is 1 for a deletion, the document's bytes if there are any, and for each attachment its name, a zero and the
/// digest of its stored bytes.
fn hash(parent: Option<&Revision>, deleted: bool, doc: Option<Doc<'_>>, attachments: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&parent.map_or(0, |parent| parent.generation).to_be_bytes());
    hasher.update(&parent.map_or([0; 16], |parent| parent.hash));
    hasher.update(&[u8::from(deleted)]);
    if let Some(doc) = doc {
        hasher.update(doc.as_bytes());
    }
    if !attachments.is_empty() {
        // A damaged list counts as empty here. `diwan check` reports it.
        for attached in attachment::decode(attachments).unwrap_or_default() {
            hasher.update(attached.name.as_bytes());
            hasher.update(&[0]);
            hasher.update(&attached.md5);
        }
    }
    let mut out = [0; 16];
    out.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    out
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(43);
        self.push(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
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

    #[test]
    fn parse_inverts_display_and_refuses_other_texts() {
        let revision = Revision::first(doc! { "_id": 1 }.as_doc()).child(None);
        assert_eq!(Revision::parse(&revision.to_string()), Some(revision));
        let hash = "0123456789abcdef0123456789abcdef";
        for bad in ["", "1", "0-", "+1-", "-1-", "4294967296-", "x-"] {
            assert_eq!(Revision::parse(&format!("{bad}{hash}")), None, "{bad}");
        }
        assert_eq!(Revision::parse(&format!("1-{hash}0")), None);
        assert_eq!(Revision::parse("1-abcdefghijk"), None);
        for short in ["1-a", "2-foo", "4294967295-a-b"] {
            assert_eq!(Revision::parse(short).unwrap().to_string(), short);
        }
        for generation in [1, 9, 10, 123, u32::MAX] {
            let revision = Revision { generation, hash: [0xa5; 16] };
            assert_eq!(revision.to_string(), format!("{generation}-{}", "a5".repeat(16)));
        }
    }
}
