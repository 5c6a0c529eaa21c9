//! `OP_COMPRESSED`: a compressed message inside a message.
//!
//! The claimed size is checked before the content is decompressed, and limits how much is decompressed.

use super::{HEADER_LEN, Header, MAX_MESSAGE_BYTES, OP_COMPRESSED, WireError, read_i32};
use std::io::{Read, Write};

/// The length of the header, the inner opcode, the inner size and the compressor.
const PREFIX: usize = HEADER_LEN + 9;

/// The compressors that client and server can negotiate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// Snappy, framed as a raw block.
    Snappy,
    /// Zlib.
    Zlib,
    /// Zstandard.
    Zstd,
}

impl Compressor {
    /// All compressors.
    pub const ALL: [Compressor; 3] = [Compressor::Snappy, Compressor::Zstd, Compressor::Zlib];

    /// The name in `hello`.
    pub fn name(self) -> &'static str {
        match self {
            Compressor::Snappy => "snappy",
            Compressor::Zlib => "zlib",
            Compressor::Zstd => "zstd",
        }
    }

    /// The number in a message.
    fn id(self) -> u8 {
        match self {
            Compressor::Snappy => 1,
            Compressor::Zlib => 2,
            Compressor::Zstd => 3,
        }
    }

    fn unpack(self, packed: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), WireError> {
        const BAD: WireError = WireError::Compression("the content does not decompress to the claimed size");
        let start = out.len();
        // One byte more than claimed is read, to detect content that is too long.
        let limit = size as u64 + 1;
        match self {
            Compressor::Snappy => {
                if snap::raw::decompress_len(packed) != Ok(size) {
                    return Err(BAD);
                }
                out.resize(start + size, 0);
                snap::raw::Decoder::new().decompress(packed, &mut out[start..]).map_err(|_| BAD)?;
            }
            Compressor::Zlib => {
                flate2::read::ZlibDecoder::new(packed).take(limit).read_to_end(out).map_err(|_| BAD)?;
            }
            Compressor::Zstd => {
                let decoder = ruzstd::decoding::StreamingDecoder::new(packed).map_err(|_| BAD)?;
                decoder.take(limit).read_to_end(out).map_err(|_| BAD)?;
            }
        }
        if out.len() - start == size { Ok(()) } else { Err(BAD) }
    }

    fn pack(self, content: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        match self {
            Compressor::Snappy => {
                let start = out.len();
                out.resize(start + snap::raw::max_compress_len(content.len()), 0);
                let length = snap::raw::Encoder::new().compress(content, &mut out[start..])?;
                out.truncate(start + length);
            }
            Compressor::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(out, flate2::Compression::fast());
                encoder.write_all(content)?;
                encoder.finish()?;
            }
            Compressor::Zstd => {
                ruzstd::encoding::compress(content, out, ruzstd::encoding::CompressionLevel::Fastest);
            }
        }
        Ok(())
    }
}

/// Decompresses `message` into `out`, which then holds the whole inner message with a header.
pub(super) fn unpack(header: Header, message: &[u8], out: &mut Vec<u8>) -> Result<Compressor, WireError> {
    let opcode = read_i32(message, HEADER_LEN).ok_or(WireError::Truncated)?;
    let size = read_i32(message, HEADER_LEN + 4).ok_or(WireError::Truncated)?;
    let id = *message.get(HEADER_LEN + 8).ok_or(WireError::Truncated)?;
    if opcode == OP_COMPRESSED {
        return Err(WireError::Compression("a compressed message within a compressed message"));
    }
    let size = usize::try_from(size)
        .ok()
        .filter(|size| *size <= MAX_MESSAGE_BYTES - HEADER_LEN)
        .ok_or(WireError::Compression("the claimed size is out of range"))?;
    let compressor = Compressor::ALL
        .into_iter()
        .find(|compressor| compressor.id() == id)
        .ok_or(WireError::Compression("unknown compressor"))?;
    out.clear();
    out.resize(HEADER_LEN, 0);
    compressor.unpack(&message[PREFIX..], size, out)?;
    let inner = Header { length: out.len(), request_id: header.request_id, opcode };
    inner.write(0, &mut out[..HEADER_LEN]);
    Ok(compressor)
}

/// Compresses a whole `message`. `None` if the compressor fails; the message is then sent uncompressed.
pub(crate) fn pack(message: &[u8], compressor: Compressor) -> Option<Vec<u8>> {
    let content = message.get(HEADER_LEN..)?;
    let mut out = Vec::with_capacity(PREFIX + content.len() / 2);
    out.extend_from_slice(&message[..HEADER_LEN]);
    out.extend_from_slice(&message[12..HEADER_LEN]);
    out.extend_from_slice(&(content.len() as u32).to_le_bytes());
    out.push(compressor.id());
    compressor.pack(content, &mut out).ok()?;
    let length = out.len() as u32;
    out[..4].copy_from_slice(&length.to_le_bytes());
    out[12..HEADER_LEN].copy_from_slice(&OP_COMPRESSED.to_le_bytes());
    Some(out)
}
