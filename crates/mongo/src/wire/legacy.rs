//! `OP_QUERY` and `OP_REPLY`, which drivers use for the handshake with a server that they do not know yet.

use super::{HEADER_LEN, Header, OP_REPLY, WireError, take_cstring, take_document};
use diwan_value::Doc;

/// A parsed `OP_QUERY`. Only commands, which are queries of the collection `$cmd`, are answered.
#[derive(Debug)]
pub struct Query<'a> {
    /// The database of the command, if the query is a command.
    pub database: Option<&'a str>,
    /// The command, without its wrapper `$query`.
    pub body: Doc<'a>,
}

impl<'a> Query<'a> {
    /// Parses a whole message, header included.
    pub(super) fn read(message: &'a [u8]) -> Result<Query<'a>, WireError> {
        // The flags of the query have no effect on a command.
        let mut rest = message.get(HEADER_LEN + 4..).ok_or(WireError::Truncated)?;
        let namespace = take_cstring(&mut rest)?;
        // Neither have the numbers of documents to skip and to return.
        rest = rest.get(8..).ok_or(WireError::Truncated)?;
        let body = take_document(&mut rest)?;
        if !rest.is_empty() {
            take_document(&mut rest)?;
        }
        let body = body.get_doc("$query").or_else(|| body.get_doc("query")).unwrap_or(body);
        Ok(Query { database: namespace.strip_suffix(".$cmd"), body })
    }
}

/// The length of an `OP_REPLY` before its document. [`finish_reply`] writes this part.
pub(crate) const REPLY_PREFIX: usize = HEADER_LEN + 20;

/// Completes an `OP_REPLY` whose document follows [`REPLY_PREFIX`] zero bytes.
pub(crate) fn finish_reply(message: &mut [u8], request_id: i32, response_to: i32) {
    /// The flag of servers that support `awaitData`.
    const AWAIT_CAPABLE: i32 = 8;
    let header = Header { length: message.len(), request_id, opcode: OP_REPLY };
    header.write(response_to, &mut message[..HEADER_LEN]);
    message[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&AWAIT_CAPABLE.to_le_bytes());
    message[REPLY_PREFIX - 4..REPLY_PREFIX].copy_from_slice(&1i32.to_le_bytes());
}
