//! The wire protocol: bytes to messages and back. Pure: sockets are `connection.rs`'s.
//!
//! [`read`] takes one whole message and gives views of it; documents are never copied, only validated, each once.
//! What a message may claim is checked against what it holds: a lying length is an error, never an allocation.

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

/// The bytes of a message's header: length, request, response to, opcode.
pub const HEADER_LEN: usize = 16;

/// The longest message, header included.
pub const MAX_MESSAGE_BYTES: usize = 48_000_000;

/// The longest document of a message: the largest that is stored, and what a command says around it.
pub const MAX_COMMAND_BYTES: usize = MAX_DOCUMENT_BYTES + 16 * 1024;

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_COMPRESSED: i32 = 2012;
const OP_MSG: i32 = 2013;

/// What every message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The bytes of the whole message.
    pub length: usize,
    /// The sender's number of the message.
    pub request_id: i32,
    /// The kind of message.
    pub opcode: i32,
}

impl Header {
    /// Reads the header at the front of `bytes`; `None` while there are fewer than 16.
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
    /// The client's number of it.
    pub request_id: i32,
    /// How it was compressed, which is how its reply is.
    pub compressor: Option<Compressor>,
    /// What it says.
    pub content: Content<'a>,
}

/// The two kinds of messages that are answered.
#[derive(Debug)]
pub enum Content<'a> {
    /// `OP_MSG`.
    Message(Message<'a>),
    /// `OP_QUERY`, with which old drivers say hello.
    Query(Query<'a>),
}

/// Reads one whole message. A compressed one is unpacked into `scratch`, which keeps its memory for the next.
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

/// Why bytes are not a message that is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum WireError {
    /// A header that claims fewer bytes than a header has, or more than a message may.
    Length(i32),
    /// An opcode that servers do not get, or no longer.
    Opcode(i32),
    /// A message that ends within something.
    Truncated,
    /// A required flag that is not known.
    Flags(u32),
    /// The message was altered on its way.
    Checksum,
    /// A compressor that was not agreed on, or bytes that it does not unpack to what was claimed.
    Compression(&'static str),
    /// A message whose sections do not fit together: MongoDB's code and text.
    Sections(i32, String),
    /// A document that is not well-formed.
    Bson(ValidationError),
    /// A document longer than [`MAX_COMMAND_BYTES`].
    TooLarge(usize),
}

impl WireError {
    /// Whether the connection cannot go on: the sender's idea of the protocol is another one. All other errors are
    /// answered like a command's.
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
            WireError::Truncated => f.write_str("the message is shorter than what it holds"),
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

/// Cuts the first document off `bytes` and validates it.
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

/// Cuts the text up to the first NUL off `bytes`.
fn take_cstring<'a>(bytes: &mut &'a [u8]) -> Result<&'a str, WireError> {
    let end = bytes.iter().position(|&byte| byte == 0).ok_or(WireError::Truncated)?;
    let text = std::str::from_utf8(&bytes[..end])
        .map_err(|_| WireError::Bson(ValidationError::Utf8 { offset: 0 }))?;
    *bytes = &bytes[end + 1..];
    Ok(text)
}

#[cfg(test)]
mod tests;
