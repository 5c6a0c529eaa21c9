//! `OP_QUERY` and its `OP_REPLY`: what drivers that do not yet know the server say hello with.

use super::{HEADER_LEN, Header, OP_REPLY, WireError, take_cstring, take_document};
use diwan_value::Doc;

/// An `OP_QUERY`, viewed. Only commands (on a collection `$cmd`) are ever answered.
#[derive(Debug)]
pub struct Query<'a> {
    /// The database that the command is for, if the query is a command.
    pub database: Option<&'a str>,
    /// The command, taken out of the wrapper `$query` where there is one.
    pub body: Doc<'a>,
}

impl<'a> Query<'a> {
    /// Reads a whole message, header included.
    pub(super) fn read(message: &'a [u8]) -> Result<Query<'a>, WireError> {
        // Flags of the query: none changes the answer to a command.
        let mut rest = message.get(HEADER_LEN + 4..).ok_or(WireError::Truncated)?;
        let namespace = take_cstring(&mut rest)?;
        // How many to skip and to return: a command returns one document.
        rest = rest.get(8..).ok_or(WireError::Truncated)?;
        let body = take_document(&mut rest)?;
        if !rest.is_empty() {
            take_document(&mut rest)?;
        }
        let body = body.get_doc("$query").or_else(|| body.get_doc("query")).unwrap_or(body);
        Ok(Query { database: namespace.strip_suffix(".$cmd"), body })
    }
}

/// What stands before the document of an `OP_REPLY`. [`finish_reply`] fills it in.
pub(crate) const REPLY_PREFIX: usize = HEADER_LEN + 20;

/// Completes an `OP_REPLY` whose one document was written behind [`REPLY_PREFIX`] zero bytes.
pub(crate) fn finish_reply(message: &mut [u8], request_id: i32, response_to: i32) {
    /// The server understands `awaitData`; set in every reply.
    const AWAIT_CAPABLE: i32 = 8;
    let header = Header { length: message.len(), request_id, opcode: OP_REPLY };
    header.write(response_to, &mut message[..HEADER_LEN]);
    message[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&AWAIT_CAPABLE.to_le_bytes());
    message[REPLY_PREFIX - 4..REPLY_PREFIX].copy_from_slice(&1i32.to_le_bytes());
}
