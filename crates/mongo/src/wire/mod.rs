//! The wire protocol: parses and writes messages. It does no I/O.
//!
//! [`read`] parses one whole message into views that borrow from it. Each document is validated once and never copied.
//! Claimed lengths are checked against the message's own length, so a false length is an error and allocates nothing.

pub(crate) mod compression;
mod legacy;
mod message;

pub use compression::Compressor;
pub use legacy::Query;
pub(crate) use legacy::{REPLY_PREFIX, finish_reply};
pub use message::{Documents, Message, Sequence};
pub(crate) use message::{MESSAGE_PREFIX, finish_message};

use crate::error::code;
use diwan_value::{MAX_DOCUMENT_BYTES, ValidationError};
use std::fmt;

/// The length of a message's header: its length, request number, response number, opcode.
pub const HEADER_LEN: usize = 16;

/// The maximum length of a message, header included.
pub const MAX_MESSAGE_BYTES: usize = 48_000_000;

/// The maximum length of a document in a message: the largest stored document, and space for the command around it.
pub const MAX_COMMAND_BYTES: usize = MAX_DOCUMENT_BYTES + 16 * 1024;

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_COMPRESSED: i32 = 2012;
const OP_MSG: i32 = 2013;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The length of the whole message.
    pub length: usize,
    /// The sender's number for the message.
    pub request_id: i32,
    /// The kind of message.
    pub opcode: i32,
}

impl Header {
    /// Parses the header at the start of `bytes`. `None` if there are fewer than 16.
    pub fn read(bytes: &[u8]) -> Option<Result<Header, WireError>> {
        let bytes: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let length = read_i32(bytes, 0)?;
        Some(match usize::try_from(length) {
            Ok(length) if (HEADER_LEN..=MAX_MESSAGE_BYTES).contains(&length) => {
                Ok(Header { length, request_id: read_i32(bytes, 4)?, opcode: read_i32(bytes, 12)? })
            }
            _ => Err(WireError::Length(length)),
        })
    }

    fn write(self, response_to: i32, out: &mut [u8]) {
        let fields = [self.length as i32, self.request_id, response_to, self.opcode];
        for (place, field) in out.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
    }
}

/// One message from a client.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// The client's number for the message.
    pub request_id: i32,
    /// The compressor of the message, which the reply uses as well.
    pub compressor: Option<Compressor>,
    /// The parsed message.
    pub content: Content<'a>,
}

/// The two kinds of messages that the server answers.
#[derive(Debug)]
pub enum Content<'a> {
    /// `OP_MSG`.
    Message(Message<'a>),
    /// `OP_QUERY`, which old drivers use for their handshake.
    Query(Query<'a>),
}

/// Parses one whole message. A compressed one is decompressed into `scratch`.
pub fn read<'a>(bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Incoming<'a>, WireError> {
    let header = Header::read(bytes).ok_or(WireError::Truncated)??;
    if header.length != bytes.len() {
        return Err(WireError::Truncated);
    }
    if header.opcode != OP_COMPRESSED {
        let content = content(header.opcode, bytes)?;
        return Ok(Incoming { request_id: header.request_id, compressor: None, content });
    }
    let compressor = compression::unpack(header, bytes, scratch)?;
    let opcode = read_i32(scratch, 12).ok_or(WireError::Truncated)?;
    let content = content(opcode, scratch)?;
    Ok(Incoming { request_id: header.request_id, compressor: Some(compressor), content })
}

fn content(opcode: i32, bytes: &[u8]) -> Result<Content<'_>, WireError> {
    match opcode {
        OP_MSG => Message::read(bytes).map(Content::Message),
        OP_QUERY => Query::read(bytes).map(Content::Query),
        other => Err(WireError::Opcode(other)),
    }
}

/// Why a message cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum WireError {
    /// The length in the header is shorter than the header or longer than [`MAX_MESSAGE_BYTES`].
    Length(i32),
    /// The opcode is not one that clients send, or is no longer supported.
    Opcode(i32),
    /// The message ends too early.
    Truncated,
    /// An unknown flag is set that a receiver must understand.
    Flags(u32),
    /// The checksum does not match.
    Checksum,
    /// The compressor is unknown, or the content does not decompress to the claimed length.
    Compression(&'static str),
    /// The sections do not form a command. With MongoDB's code and text.
    Sections(i32, String),
    /// A document is invalid.
    Bson(ValidationError),
    /// A document is longer than [`MAX_COMMAND_BYTES`].
    TooLarge(usize),
}

impl WireError {
    /// Whether the connection must be closed, because the client does not follow the protocol. Other errors are sent as
    /// replies.
    pub fn is_fatal(&self) -> bool {
        !matches!(self, WireError::Sections(..) | WireError::Bson(_) | WireError::TooLarge(_))
    }

    /// MongoDB's code of the error.
    pub fn code(&self) -> i32 {
        match self {
            WireError::Length(_) | WireError::Truncated | WireError::Compression(_) => 17,
            WireError::Opcode(_) => code::UNSUPPORTED_OP_QUERY_COMMAND,
            WireError::Flags(_) => 223,
            WireError::Checksum => 288,
            WireError::Sections(code, _) => *code,
            WireError::Bson(ValidationError::TooDeep) => 15,
            WireError::Bson(_) => 22,
            WireError::TooLarge(_) => 10334,
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Length(length) => {
                write!(
                    f,
                    "recv(): message msgLen {length} is invalid. Min {HEADER_LEN} Max: {MAX_MESSAGE_BYTES}"
                )
            }
            WireError::Opcode(opcode) => write!(f, "Unsupported opcode {opcode}: use OP_MSG"),
            WireError::Truncated => f.write_str("the message is shorter than its contents"),
            WireError::Flags(flags) => write!(f, "Message contains illegal flags value: Ob{flags:b}"),
            WireError::Checksum => f.write_str("OP_MSG checksum does not match contents"),
            WireError::Compression(what) => write!(f, "OP_COMPRESSED: {what}"),
            WireError::Sections(_, message) => f.write_str(message),
            WireError::Bson(error) => write!(f, "Invalid BSON: {error}"),
            WireError::TooLarge(length) => write!(
                f,
                "BSONObj size: {length} (0x{length:X}) is invalid. Size must be between 0 and {MAX_COMMAND_BYTES}(16MB)"
            ),
        }
    }
}

impl std::error::Error for WireError {}

/// The little-endian `i32` at `at`.
fn read_i32(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|chunk| i32::from_le_bytes(*chunk))
}

/// Removes the first document from `bytes`, and validates it.
fn take_document<'a>(bytes: &mut &'a [u8]) -> Result<diwan_value::Doc<'a>, WireError> {
    let length =
        read_i32(bytes, 0).and_then(|length| usize::try_from(length).ok()).ok_or(WireError::Truncated)?;
    if length > MAX_COMMAND_BYTES {
        return Err(WireError::TooLarge(length));
    }
    let (document, rest) =
        bytes.split_at_checked(length).ok_or(WireError::Bson(ValidationError::Length { offset: 0 }))?;
    *bytes = rest;
    diwan_value::Doc::validate(document).map_err(WireError::Bson)
}

/// Removes the string up to the first NUL from `bytes`.
fn take_cstring<'a>(bytes: &mut &'a [u8]) -> Result<&'a str, WireError> {
    let end = bytes.iter().position(|&byte| byte == 0).ok_or(WireError::Truncated)?;
    let text = std::str::from_utf8(&bytes[..end])
        .map_err(|_| WireError::Bson(ValidationError::Utf8 { offset: 0 }))?;
    *bytes = &bytes[end + 1..];
    Ok(text)
}

#[cfg(test)]
mod tests;
