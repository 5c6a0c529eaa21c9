//! Update sequences as clients see them: the number, a dash, and a mark of the database.
//!
//! Clients treat them as opaque, but PouchDB parses the leading number. A sequence is meaningless after its database
//! was deleted and created again; the mark detects this, and a sequence with another database's mark is read as 0.

use crate::error::{Error, Result};
use crate::uuids::push_hex;
use diwan_store::Collection;
use std::fmt::Write;

/// Formats a sequence.
pub(crate) fn text(collection: &Collection, sequence: u64) -> String {
    let mut out = String::with_capacity(24);
    write_text(&mut out, collection, sequence);
    out
}

/// Appends a formatted sequence.
fn write_text(out: &mut String, collection: &Collection, sequence: u64) {
    let _ = write!(out, "{sequence}-");
    push_hex(out, &collection.mark());
}

/// Writes sequences of one database; formats the mark only once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SequenceWriter {
    mark: [u8; 9],
}

impl SequenceWriter {
    pub(crate) fn new(collection: &Collection) -> SequenceWriter {
        let mut text = String::from("-");
        push_hex(&mut text, &collection.mark());
        let mut mark = [0; 9];
        mark.copy_from_slice(text.as_bytes());
        SequenceWriter { mark }
    }

    /// Appends a sequence as a JSON string.
    pub(crate) fn write(&self, out: &mut Vec<u8>, sequence: u64) {
        out.push(b'"');
        out.extend_from_slice(itoa::Buffer::new().format(sequence).as_bytes());
        out.extend_from_slice(&self.mark);
        out.push(b'"');
    }
}

/// Where a feed starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// After this sequence.
    Sequence(u64),
    /// After the last existing change.
    Now,
}

/// Parses a sequence given by a client: `now`, `0`, the output of [`text`], or a sequence of a CouchDB server. As in
/// CouchDB, a number without a mark is malformed. A sequence of another database is read as 0.
pub(crate) fn parse(collection: &Collection, text: &str) -> Result<Since> {
    match text {
        "now" => return Ok(Since::Now),
        "0" => return Ok(Since::Sequence(0)),
        _ => {}
    }
    let malformed = || Error::bad_request("Malformed sequence supplied in 'since' parameter.");
    let text = text.strip_prefix('"').unwrap_or(text);
    let text = text.strip_suffix('"').unwrap_or(text);
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (number, mark) = match text.split_once('-').filter(|(number, _)| is_number(number)) {
        Some((number, mark)) => (Some(number), mark),
        None => (None, text),
    };
    let mut own = String::new();
    push_hex(&mut own, &collection.mark());
    if mark == own {
        let number = number.and_then(|number| number.parse().ok()).ok_or_else(malformed)?;
        return Ok(Since::Sequence(number));
    }
    let is_other =
        number.is_some() && mark.len() == own.len() && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
    // CouchDB's marks are base64-encoded Erlang terms, which begin like this.
    let is_couchdbs = mark.starts_with("g1") || mark.starts_with("g2");
    if is_other || is_couchdbs { Ok(Since::Sequence(0)) } else { Err(malformed()) }
}
