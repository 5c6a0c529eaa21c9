//! What a document knows of its attachments: a list of descriptions beside its body; the bytes are blobs.
//!
//! Encoded: the number of attachments; of each its flags, its name and type (each after its length), its length, the
//! stored length if that is another, the digest, the generation, the blob. Numbers as [`write_number`] writes them.

use crate::error::{Error, Result};
use crate::keys::{read_number, write_number};
use std::fmt;

/// The name of a blob in its collection: never used again, and later ones are greater.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(pub [u8; 16]);

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// How stored bytes become the attachment's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// By unpacking them.
    Gzip,
}

/// One attachment of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its name, unique in its document.
    pub name: String,
    /// Its media type as the client gave it.
    pub content_type: String,
    /// How many bytes it has.
    pub length: u64,
    /// How many bytes are stored; the same where nothing is packed.
    pub encoded_length: u64,
    /// How they are stored, `None` for as they are.
    pub encoding: Option<Encoding>,
    /// The MD5 of the bytes stored, which clients see as its digest.
    pub md5: [u8; 16],
    /// The generation of the revision that brought it; what another server said of it, which may be 0.
    pub revpos: u32,
    /// Where its bytes are.
    pub blob: BlobId,
}

/// The generation of an attachment in an edit that is still to be made.
pub const THIS_EDIT: u32 = u32::MAX;

const GZIP: u8 = 1;

/// Writes a list of attachments. An empty list is one byte.
pub fn encode(attachments: &[Attachment]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + attachments.len() * 80);
    write_number(&mut out, attachments.len() as u64);
    for attachment in attachments {
        out.push(if attachment.encoding.is_some() { GZIP } else { 0 });
        for text in [&attachment.name, &attachment.content_type] {
            write_number(&mut out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
        write_number(&mut out, attachment.length);
        if attachment.encoding.is_some() {
            write_number(&mut out, attachment.encoded_length);
        }
        out.extend_from_slice(&attachment.md5);
        write_number(&mut out, attachment.revpos.into());
        out.extend_from_slice(&attachment.blob.0);
    }
    out
}

/// Reads what [`encode`] wrote, and nothing after it.
pub fn decode(bytes: &[u8]) -> Result<Vec<Attachment>> {
    let mut input = Input(bytes);
    let mut read = || {
        let count = input.number()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(input.attachment()?);
        }
        input.0.is_empty().then_some(list)
    };
    read().ok_or_else(|| Error::Damaged("a list of attachments".to_owned()))
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = read_number(self.0)?;
        self.0 = rest;
        Some(number)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().map(str::to_owned)
    }

    fn array(&mut self) -> Option<[u8; 16]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn attachment(&mut self) -> Option<Attachment> {
        let (&flags, rest) = self.0.split_first()?;
        self.0 = rest;
        let encoding = match flags {
            0 => None,
            GZIP => Some(Encoding::Gzip),
            _ => return None,
        };
        let (name, content_type, length) = (self.text()?, self.text()?, self.number()?);
        let encoded_length = if encoding.is_some() { self.number()? } else { length };
        let md5 = self.array()?;
        let revpos = u32::try_from(self.number()?).ok()?;
        let blob = BlobId(self.array()?);
        Some(Attachment { name, content_type, length, encoded_length, encoding, md5, revpos, blob })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_and_damaged_ones_are_refused() {
        let plain = Attachment {
            name: "photo.jpg".to_owned(),
            content_type: "image/jpeg".to_owned(),
            length: 70_000,
            encoded_length: 70_000,
            encoding: None,
            md5: [7; 16],
            revpos: 3,
            blob: BlobId([9; 16]),
        };
        let packed = Attachment {
            name: "ü/notes.txt".to_owned(),
            content_type: String::new(),
            encoded_length: 412,
            encoding: Some(Encoding::Gzip),
            ..plain.clone()
        };
        for list in [vec![], vec![plain.clone()], vec![plain, packed]] {
            let bytes = encode(&list);
            assert_eq!(decode(&bytes).unwrap(), list);
            for cut in 0..bytes.len() {
                assert!(decode(&bytes[..cut]).is_err());
            }
            assert!(decode(&[bytes.as_slice(), &[0]].concat()).is_err());
        }
        assert!(decode(&[255, 255, 255]).is_err());
    }
}
