//! Uploads of blobs, with one chunk in memory.

use super::hold::{BlobHold, Head};
use super::reference::{loosen, stamp};
use super::{Attachment, BlobId, CHUNK_BYTES, Encoding};
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::keys::{self, Key};
use diwan_kv::{Batch, KeyRange, Space};
use diwan_query::code;
use flate2::write::{GzEncoder, MultiGzDecoder};
use flate2::{Compression, GzBuilder};
use md5::{Digest, Md5};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::sync::Arc;

/// The operating system that a gzip stream's header names: Unix, as zlib writes it. Digests cover the header.
const UNIX: u8 = 3;

/// The form of an upload's bytes, and how they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobSource {
    /// Bytes that are stored unchanged.
    Plain,
    /// Bytes that are compressed.
    ToPack {
        /// How hard: from 1, the fastest, to 9, the smallest.
        level: u32,
    },
    /// A gzip stream, which is stored unchanged. The attachment is the uncompressed content.
    Packed,
}

/// Extracts the store's error from one that a [`BlobWriter`] or [`BlobReader`](super::BlobReader) returned. Returns any
/// other error unchanged.
pub fn error_of(error: io::Error) -> std::result::Result<Error, io::Error> {
    if !error.get_ref().is_some_and(|inner| inner.is::<Error>()) {
        return Err(error);
    }
    let kind = error.kind();
    match error.into_inner().map(|inner| inner.downcast::<Error>()) {
        Some(Ok(own)) => Ok(*own),
        Some(Err(other)) => Err(io::Error::new(kind, other)),
        None => Err(kind.into()),
    }
}

/// A complete blob that no document refers to yet. It exists at least until this is dropped. The caller drops this
/// after it has committed a reference, or when it will not commit one.
#[derive(Clone, Debug)]
pub struct StagedBlob {
    hold: BlobHold,
    /// The attachment's uncompressed length.
    pub length: u64,
    /// The number of stored bytes.
    pub encoded_length: u64,
    /// How the stored bytes are compressed; `None` if they are not.
    pub encoding: Option<Encoding>,
    /// The MD5 of the stored bytes.
    pub md5: [u8; 16],
    /// The MD5 of the bytes written to the [`BlobWriter`].
    pub received_md5: [u8; 16],
}

impl StagedBlob {
    /// The blob.
    pub fn blob(&self) -> BlobId {
        self.hold.blob()
    }

    /// An attachment with the blob's bytes.
    pub fn attachment(
        &self,
        name: impl Into<String>,
        content_type: impl Into<String>,
        revpos: u32,
    ) -> Attachment {
        Attachment {
            name: name.into(),
            content_type: content_type.into(),
            length: self.length,
            encoded_length: self.encoded_length,
            encoding: self.encoding,
            md5: self.md5,
            revpos,
            blob: self.blob(),
        }
    }
}

/// An upload. If it is dropped before [`finish`](BlobWriter::finish), the sweeper deletes the stored chunks.
pub struct BlobWriter {
    encoder: Encoder,
    received: u64,
}

/// How the uploaded bytes reach the chunks.
enum Encoder {
    Plain(Sink),
    ToPack { packer: GzEncoder<Sink>, received: Md5 },
    Packed { sink: Sink, counter: MultiGzDecoder<Counter> },
}

impl Collection {
    /// Begins an upload.
    pub fn blob_writer(self: &Arc<Self>, source: BlobSource) -> Result<BlobWriter> {
        if self.schema().dropped {
            return Err(self.dropped_error());
        }
        let sink = Sink::new(self.clone());
        let encoder = match source {
            BlobSource::Plain => Encoder::Plain(sink),
            BlobSource::ToPack { level } => {
                let level = Compression::new(level.min(9));
                let packer = GzBuilder::new().operating_system(UNIX).write(sink, level);
                Encoder::ToPack { packer, received: Md5::new() }
            }
            BlobSource::Packed => Encoder::Packed { sink, counter: MultiGzDecoder::new(Counter(0)) },
        };
        Ok(BlobWriter { encoder, received: 0 })
    }
}

impl BlobWriter {
    /// How many bytes have been written so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Completes the upload.
    pub fn finish(self) -> Result<StagedBlob> {
        match self.encoder {
            Encoder::Plain(sink) => sink.finish(None, self.received, None),
            Encoder::ToPack { packer, received } => {
                let sink = packer.finish().map_err(into_error)?;
                sink.finish(Some(Encoding::Gzip), self.received, Some(received.finalize().into()))
            }
            Encoder::Packed { sink, mut counter } => {
                counter.try_finish().map_err(|_| no_gzip())?;
                if self.received == 0 {
                    return Err(refused("an empty upload is not a gzip stream"));
                }
                let length = counter.get_ref().0;
                sink.finish(Some(Encoding::Gzip), length, None)
            }
        }
    }
}

impl Write for BlobWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.encoder {
            Encoder::Plain(sink) => sink.write_all(bytes)?,
            Encoder::ToPack { packer, received } => {
                packer.write_all(bytes)?;
                received.update(bytes);
            }
            Encoder::Packed { sink, counter } => {
                counter.write_all(bytes).map_err(|_| io::Error::other(no_gzip()))?;
                sink.write_all(bytes)?;
            }
        }
        self.received += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn refused(message: &str) -> Error {
    Error::refused(code::BAD_VALUE, message)
}

fn no_gzip() -> Error {
    refused("the upload is not a gzip stream")
}

/// The error of a sink. A sink fails only with the store's errors.
fn into_error(error: io::Error) -> Error {
    error_of(error).unwrap_or_else(|other| refused(&other.to_string()))
}

/// A writer that counts its bytes and discards them.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Splits the bytes to be stored into chunks and hashes them. A content that fits one chunk is written only after it is
/// known to be new.
struct Sink {
    collection: Arc<Collection>,
    blob: BlobId,
    /// Set with the first chunk.
    hold: Option<BlobHold>,
    buffer: Vec<u8>,
    chunks: u64,
    length: u64,
    md5: Md5,
    hash: blake3::Hasher,
}

impl Sink {
    fn new(collection: Arc<Collection>) -> Sink {
        // Later blobs have greater identifiers, so chunks are mostly written in key order.
        let random = RandomState::new().hash_one(0u8).to_be_bytes();
        let mut blob = [0; 16];
        blob[..8].copy_from_slice(&stamp().to_be_bytes());
        blob[8..].copy_from_slice(&random);
        Sink {
            collection,
            blob: BlobId(blob),
            hold: None,
            buffer: Vec::new(),
            chunks: 0,
            length: 0,
            md5: Md5::new(),
            hash: blake3::Hasher::new(),
        }
    }

    /// Writes the buffer as the next chunk. The first chunk's batch also adds the loose mark by which the sweeper finds
    /// an abandoned upload.
    fn write_chunk(&mut self) -> Result<()> {
        let collection = &self.collection;
        let mut batch = Batch::with_capacity(2);
        if self.hold.is_none() {
            let mut state = collection.shared.blobs.state.lock();
            self.hold = Some(BlobHold::new(&collection.shared, &mut state, collection.id, self.blob));
            loosen(&mut batch, collection.id, self.blob);
        }
        self.stage_chunk(&mut batch);
        self.chunks += 1;
        self.buffer.clear();
        self.collection.commit_unless_dropped(batch)?;
        Ok(())
    }

    fn stage_chunk(&self, batch: &mut Batch) {
        let key = Key::BlobChunk(self.collection.id, self.blob, self.chunks);
        batch.put(Space::Attachments, key.bytes(), self.buffer.as_slice());
    }

    fn finish(
        mut self,
        encoding: Option<Encoding>,
        length: u64,
        received_md5: Option<[u8; 16]>,
    ) -> Result<StagedBlob> {
        let hash = *self.hash.finalize().as_bytes();
        let md5: [u8; 16] = std::mem::take(&mut self.md5).finalize().into();
        let head = Head { length: self.length, chunk_bytes: CHUNK_BYTES as u64, hash, md5 };
        let hold = self.settle(&head)?;
        Ok(StagedBlob {
            hold,
            length,
            encoded_length: self.length,
            encoding,
            md5,
            received_md5: received_md5.unwrap_or(md5),
        })
    }

    /// Commits the blob's head. If the collection has the same content already, deletes the new chunks instead. Returns
    /// a hold on the blob with the content.
    fn settle(&mut self, head: &Head) -> Result<BlobHold> {
        let shared = self.collection.shared.clone();
        shared.evaluate(|| self.try_settle(head))
    }

    fn try_settle(&mut self, head: &Head) -> Result<BlobHold> {
        let collection = self.collection.clone();
        let (shared, id) = (&collection.shared, collection.id);
        let _turn = collection.begin_write()?;
        let mut state = shared.blobs.state.lock();
        let content = Key::BlobContent(id, &head.hash).bytes();
        if let Some(value) = shared.engine.get(Space::Meta, &content)?
            && let Ok(blob) = <[u8; 16]>::try_from(&*value).map(BlobId)
            && let Some(older) = shared.engine.get(Space::Meta, &Key::Blob(id, blob).bytes())?
            && Head::parse(&older)? == *head
        {
            let hold = BlobHold::new(shared, &mut state, id, blob);
            drop(state);
            if self.chunks > 0 {
                // The loose mark stays, in case this is interrupted. The sweeper deletes it.
                let chunks = [keys::collection_prefix(id).as_slice(), &self.blob.0].concat();
                shared.engine.delete_range(Space::Attachments, KeyRange::prefix(&chunks))?;
            }
            return Ok(hold);
        }
        let mut batch = Batch::with_capacity(4);
        if !self.buffer.is_empty() {
            self.stage_chunk(&mut batch);
        }
        if self.hold.is_none() {
            loosen(&mut batch, id, self.blob);
        }
        batch.put(Space::Meta, content, &self.blob.0[..]);
        batch.put(Space::Meta, Key::Blob(id, self.blob).bytes(), head.encode());
        shared.engine.commit(batch)?;
        if let Some(totals) = state.totals.get_mut(&id) {
            totals.count += 1;
            totals.bytes += head.length;
        }
        let own = self.hold.take();
        Ok(own.unwrap_or_else(|| BlobHold::new(shared, &mut state, id, self.blob)))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() == CHUNK_BYTES {
            self.write_chunk().map_err(io::Error::other)?;
        }
        let taken = bytes.len().min(CHUNK_BYTES - self.buffer.len());
        let taken = &bytes[..taken];
        self.buffer.extend_from_slice(taken);
        self.length += taken.len() as u64;
        self.md5.update(taken);
        self.hash.update(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
