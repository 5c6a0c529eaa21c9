//! `OP_MSG`: flags, a body, document sequences, and an optional checksum.

use super::{HEADER_LEN, Header, OP_MSG, WireError, read_i32, take_cstring, take_document};
use diwan_value::{Array, Doc, Elements, Value};

const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;
/// The flags that a receiver must understand. Unknown flags among the upper 16 may be ignored.
const REQUIRED: u32 = 0xFFFF;

/// A parsed `OP_MSG`.
#[derive(Debug)]
pub struct Message<'a> {
    /// The client expects no reply.
    pub more_to_come: bool,
    /// The client accepts several replies.
    pub exhaust_allowed: bool,
    /// The command.
    pub body: Doc<'a>,
    /// Arguments of the command outside of the body: arrays of documents.
    pub sequences: Vec<Sequence<'a>>,
}

impl<'a> Message<'a> {
    /// Parses a whole message, header included.
    pub(super) fn read(message: &'a [u8]) -> Result<Message<'a>, WireError> {
        let flags = read_i32(message, HEADER_LEN).ok_or(WireError::Truncated)? as u32;
        if flags & REQUIRED & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
            return Err(WireError::Flags(flags));
        }
        let mut rest = &message[HEADER_LEN + 4..];
        if flags & CHECKSUM_PRESENT != 0 {
            let (covered, checksum) = message.split_last_chunk::<4>().ok_or(WireError::Truncated)?;
            if covered.len() < HEADER_LEN + 4 {
                return Err(WireError::Truncated);
            }
            if crc32c::crc32c(covered) != u32::from_le_bytes(*checksum) {
                return Err(WireError::Checksum);
            }
            rest = &covered[HEADER_LEN + 4..];
        }
        let mut body = None;
        let mut sequences: Vec<Sequence<'a>> = Vec::new();
        while let Some((&kind, after)) = rest.split_first() {
            rest = after;
            match kind {
                0 if body.is_some() => {
                    return Err(WireError::Sections(40430, "Multiple body sections in message".into()));
                }
                0 => body = Some(take_document(&mut rest)?),
                1 => {
                    let sequence = Sequence::read(&mut rest)?;
                    if sequences.iter().any(|other| other.name == sequence.name) {
                        let text = format!("Duplicate document sequence: {}", sequence.name);
                        return Err(WireError::Sections(40431, text));
                    }
                    sequences.push(sequence);
                }
                other => return Err(WireError::Sections(40432, format!("Unknown section kind {other}"))),
            }
        }
        let body =
            body.ok_or_else(|| WireError::Sections(40587, "OP_MSG messages must have a body".into()))?;
        if let Some(both) = sequences.iter().find(|sequence| body.contains_key(sequence.name)) {
            let text = format!("Duplicate field between body and document sequence {}", both.name);
            return Err(WireError::Sections(40433, text));
        }
        let (more_to_come, exhaust_allowed) = (flags & MORE_TO_COME != 0, flags & EXHAUST_ALLOWED != 0);
        Ok(Message { more_to_come, exhaust_allowed, body, sequences })
    }
}

/// A document sequence. Its documents are validated.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// The argument of the command that it is.
    pub name: &'a str,
    documents: &'a [u8],
}

impl<'a> Sequence<'a> {
    fn read(rest: &mut &'a [u8]) -> Result<Sequence<'a>, WireError> {
        let size =
            read_i32(rest, 0).and_then(|size| usize::try_from(size).ok()).ok_or(WireError::Truncated)?;
        let (section, after) = rest.split_at_checked(size).ok_or(WireError::Truncated)?;
        *rest = after;
        let mut content = section.get(4..).ok_or(WireError::Truncated)?;
        let name = take_cstring(&mut content)?;
        let documents = content;
        while !content.is_empty() {
            take_document(&mut content)?;
        }
        Ok(Sequence { name, documents })
    }

    /// The length of all documents.
    pub fn bytes(self) -> usize {
        self.documents.len()
    }

    /// Iterates over the documents.
    pub fn documents(self) -> Documents<'a> {
        Documents::Sequence(self.documents)
    }
}

/// The documents of an argument, from an array in the body or from a sequence. An element of an array that is not a
/// document is returned as `Err`.
#[derive(Clone, Debug)]
pub enum Documents<'a> {
    /// The rest of an array.
    Array(Elements<'a>),
    /// The rest of a sequence.
    Sequence(&'a [u8]),
}

impl<'a> Documents<'a> {
    /// Iterates over an array in the body.
    pub fn of_array(array: Array<'a>) -> Documents<'a> {
        Documents::Array(array.elements())
    }
}

impl<'a> Iterator for Documents<'a> {
    type Item = Result<Doc<'a>, Value<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Documents::Array(elements) => {
                let value = elements.next()?.value();
                Some(value.as_doc().ok_or(value))
            }
            Documents::Sequence(rest) => {
                let length = usize::try_from(read_i32(rest, 0)?).ok()?;
                let (document, after) = rest.split_at_checked(length)?;
                *rest = after;
                Some(Ok(Doc::trusted(document)))
            }
        }
    }
}

/// The length of a reply before its body: header, flags, kind of section. [`finish_message`] writes this part.
pub(crate) const MESSAGE_PREFIX: usize = HEADER_LEN + 4 + 1;

/// Completes a reply whose body follows [`MESSAGE_PREFIX`] zero bytes. `more_to_come` tells the client that another reply
/// follows.
pub(crate) fn finish_message(message: &mut [u8], request_id: i32, response_to: i32, more_to_come: bool) {
    let flags = if more_to_come { MORE_TO_COME } else { 0 };
    message[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&flags.to_le_bytes());
    let header = Header { length: message.len(), request_id, opcode: OP_MSG };
    header.write(response_to, &mut message[..HEADER_LEN]);
}
