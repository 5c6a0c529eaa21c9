//! The list of a document's attachments, which is stored beside its body. The attachments' bytes are stored as blobs.
//!
//! Encoded form: the number of attachments; for each its flags, its name and type (each after its length), its length,
//! the stored length if it is compressed, the digest, the generation, the blob. Numbers are encoded by
//! [`write_number`].

use crate::error::{Error, Result};
use crate::keys::{read_number, write_number};
use std::fmt;

/// The identifier of a blob in its collection. It is never used again, and later blobs have greater ones.
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

/// How an attachment's stored bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As a gzip stream.
    Gzip,
}

/// One attachment of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its name, unique in its document.
    pub name: String,
    /// Its media type, as the client gave it.
    pub content_type: String,
    /// Its length in bytes, uncompressed.
    pub length: u64,
    /// How many bytes are stored. Equals `length` unless the bytes are compressed.
    pub encoded_length: u64,
    /// How the stored bytes are compressed; `None` if they are not.
    pub encoding: Option<Encoding>,
    /// The MD5 of the stored bytes, which clients see as its digest.
    pub md5: [u8; 16],
    /// The generation of the revision that added the attachment. Another server may have given any number, also 0.
    pub revpos: u32,
    /// The blob that holds its bytes.
    pub blob: BlobId,
}

/// The `revpos` of an attachment that an edit adds. The edit replaces it by its own generation.
pub const THIS_EDIT: u32 = u32::MAX;

const GZIP: u8 = 1;

/// Encodes a list of attachments.
pub(crate) fn encode(attachments: &[Attachment]) -> Vec<u8> {
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

/// Decodes what [`encode`] wrote. Trailing bytes are an error.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Attachment>> {
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
    fn lists_decode_to_what_was_encoded_and_damaged_ones_are_refused() {
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
