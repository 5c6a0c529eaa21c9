//! Reading blobs, with one chunk in memory. A reader holds its blob, so it can finish after the document is deleted.

use super::hold::BlobHold;
use super::{Attachment, Encoding};
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::keys::{self, Key};
use diwan_kv::{Bytes, Space};
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, Read};
use std::ops::Range;
use std::sync::Arc;

/// The form in which an attachment's bytes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobForm {
    /// Uncompressed.
    Identity,
    /// As stored: compressed or not.
    Stored,
}

/// The bytes of an attachment, or a range of them.
pub struct BlobReader {
    source: Source,
    left: u64,
    /// The uncompressed length is unknown, so the end of the stream is no error.
    is_open: bool,
}

enum Source {
    Stored(Chunks),
    Unpacked(Box<MultiGzDecoder<Chunks>>),
}

impl Collection {
    /// Opens an attachment for reading; `None` if its blob does not exist (any more). A `range` beyond the end is cut.
    /// A range of compressed bytes costs the decompression of all bytes before it.
    pub fn read_blob(
        self: &Arc<Self>,
        attachment: &Attachment,
        form: BlobForm,
        range: Option<Range<u64>>,
    ) -> Result<Option<BlobReader>> {
        let Some((hold, head)) = self.hold_with_head(attachment.blob)? else { return Ok(None) };
        let unpack = form == BlobForm::Identity && attachment.encoding == Some(Encoding::Gzip);
        // For a stream that another server compressed, the uncompressed length may be unknown. It then equals the
        // stored one.
        let is_open = unpack && attachment.length == attachment.encoded_length;
        let length = match unpack {
            true if is_open => u64::MAX,
            true => attachment.length,
            false => head.length,
        };
        let range = range.unwrap_or(0..length);
        let (start, end) = (range.start.min(length), range.end.min(length));
        let mut chunks = Chunks {
            collection: self.clone(),
            hold,
            chunk_bytes: head.chunk_bytes,
            length: head.length,
            at: 0,
            chunk: Bytes::from(&[][..]),
            used: 0,
        };
        let source = if unpack {
            let mut unpacked = MultiGzDecoder::new(chunks);
            io::copy(&mut (&mut unpacked).take(start), &mut io::sink()).map_err(|error| {
                super::error_of(error).unwrap_or_else(|other| damaged(attachment, &other))
            })?;
            Source::Unpacked(Box::new(unpacked))
        } else {
            chunks.at = start;
            Source::Stored(chunks)
        };
        Ok(Some(BlobReader { source, left: end.saturating_sub(start), is_open }))
    }
}

fn damaged(attachment: &Attachment, error: &io::Error) -> Error {
    Error::Damaged(format!("blob {}: {error}", attachment.blob))
}

impl BlobReader {
    /// How many bytes are left to read, at most.
    pub fn left(&self) -> u64 {
        self.left
    }
}

impl Read for BlobReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).map_or(out.len(), |left| left.min(out.len()));
        let out = &mut out[..most];
        let read = match &mut self.source {
            Source::Stored(chunks) => chunks.read(out)?,
            Source::Unpacked(unpacked) => unpacked.read(out)?,
        };
        if read == 0 && most > 0 && !self.is_open {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// A reader of a blob's stored bytes, from any position.
struct Chunks {
    collection: Arc<Collection>,
    hold: BlobHold,
    chunk_bytes: u64,
    length: u64,
    /// The position of the next byte.
    at: u64,
    /// The chunk that holds the next byte, if it has been read.
    chunk: Bytes,
    /// The offset of the next byte in the chunk.
    used: usize,
}

impl Chunks {
    fn fetch(&mut self) -> Result<()> {
        let number = self.at / self.chunk_bytes;
        let key = Key::BlobChunk(self.collection.id, self.hold.blob(), number).bytes();
        let expected = self.chunk_bytes.min(self.length - number * self.chunk_bytes);
        match self.collection.shared.engine.get(Space::Attachments, &key)? {
            Some(chunk) if chunk.len() as u64 == expected => {
                self.chunk = chunk;
                self.used = (self.at % self.chunk_bytes) as usize;
                Ok(())
            }
            None if self.collection.schema().dropped => Err(self.collection.dropped_error()),
            _ => Err(Error::Damaged(keys::describe(Space::Attachments, &key))),
        }
    }
}

impl BufRead for Chunks {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.chunk.len() && self.at < self.length {
            self.fetch().map_err(io::Error::other)?;
        }
        Ok(&self.chunk[self.used..])
    }

    fn consume(&mut self, count: usize) {
        self.used += count;
        self.at += count as u64;
    }
}

impl Read for Chunks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}
