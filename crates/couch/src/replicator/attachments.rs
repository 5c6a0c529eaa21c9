//! Documents with large attachments: sent as `multipart/related`, each attachment read from the source while it is
//! written to the target, so that none is ever held.

use super::failure::Failure;
use super::members::Members;
use super::peer::{Call, Payload};
use super::protocol::{Database, Refused, doc_path, escape};
use crate::error::NO_STORAGE;
use hyper::Method;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::io::{self, Cursor, Read};
use std::sync::Arc;

/// What ends the parts of a body. Lengths are stated, so it may occur in them.
const BOUNDARY: &str = "3b6c1f0e7a944d58b2d0c5e8f1a7d263";

/// How a write ended.
pub enum Sent {
    /// The target has it.
    Written,
    /// The target does not take it.
    Refused(Refused),
    /// The source did not find it.
    Gone,
    /// One of its attachments cannot be asked for by itself: no path leads to the empty name.
    Unnamed,
}

/// The list of attachments in a document's text, if there are any.
pub fn list(text: &[u8]) -> Option<Map<String, Value>> {
    memchr::memmem::find(text, b"\"_attachments\"")?;
    let list = Members::parse(text).ok()?.value("_attachments")?;
    list.as_object().filter(|list| !list.is_empty()).cloned()
}

/// Whether the source keeps one of them compressed: within a document it would come without that, and the target would
/// compress it anew, perhaps to other bytes of another digest.
pub fn has_packed(list: &Map<String, Value>) -> bool {
    list.values().any(|entry| entry.get("encoding").is_some())
}

/// How many bytes the attachments have.
pub fn total(list: &Map<String, Value>) -> u64 {
    list.values().map(|entry| entry.get("length").and_then(Value::as_u64).unwrap_or(u64::MAX / 1024)).sum()
}

/// Copies one revision with its attachments, `encoded` as the source keeps them if the target understands that. Those
/// that the target has by a revision in `ancestors` are not sent.
pub fn copy(
    source: &Arc<Database>,
    target: &Database,
    id: &str,
    rev: &str,
    ancestors: &[String],
    encoded: bool,
) -> Result<Sent, Failure> {
    let path = doc_path(id);
    let call = Call::get(format!("{path}?rev={}&revs=true&att_encoding_info=true", escape(rev)));
    let answer = source.send(call)?;
    if answer.status == 404 {
        source.info()?;
        return Ok(Sent::Gone);
    }
    let answer = source.successful(answer, &path)?;
    let text = answer.bytes().map_err(|error| source.broken(&error))?;
    let invalid =
        |error: serde_json::Error| Failure::new("invalid_json", format!("{}: {error}", source.uri()));
    let document = Members::parse(&text).map_err(invalid)?;
    let known = newest_ancestor(&document, ancestors);
    let mut attempt = Attempt { known, encoded };
    loop {
        match attempt.put(source, target, id, rev, &document) {
            // The target lacks what an ancestor of this revision had: all are sent.
            Ok(Sent::Refused(refused)) if refused.error == "missing_stub" && attempt.known.is_some() => {
                attempt.known = None;
            }
            // It lacks what it said it has: it may have changed between two requests.
            Ok(Sent::Refused(Refused { error, reason, .. })) if error == "missing_stub" => {
                return Err(Failure::passing(error, format!("PUT {}{path}: {reason}", target.uri())));
            }
            // The source does not give the compressed form that it has: the plain one is sent.
            Err(failure) if failure.error == "attachment_read_failed" && attempt.encoded => {
                attempt.encoded = false
            }
            result => return result,
        }
    }
}

/// The generation of the newest revision that is known to the target and lies on this one's way.
fn newest_ancestor(document: &Members, ancestors: &[String]) -> Option<u64> {
    let revisions = document.value("_revisions")?;
    let start = revisions.get("start")?.as_u64()?;
    let ids = revisions.get("ids")?.as_array()?;
    ancestors
        .iter()
        .filter_map(|rev| {
            let (generation, hash) = rev.split_once('-')?;
            let generation: u64 = generation.parse().ok()?;
            let at = usize::try_from(start.checked_sub(generation)?).ok()?;
            (ids.get(at)?.as_str()? == hash).then_some(generation)
        })
        .max()
}

struct Attempt {
    known: Option<u64>,
    encoded: bool,
}

impl Attempt {
    fn put(
        &self,
        source: &Arc<Database>,
        target: &Database,
        id: &str,
        rev: &str,
        document: &Members,
    ) -> Result<Sent, Failure> {
        let entries = document
            .get("_attachments")
            .map_or_else(Members::default, |text| Members::parse(text.as_bytes()).unwrap_or_default());
        let mut related =
            Related { parts: VecDeque::new(), current: Box::new(io::empty()), source: source.clone() };
        let mut sent = entries.clone();
        let mut length = 0;
        let mut files = VecDeque::new();
        for name in entries.names() {
            let Some(Value::Object(mut entry)) = entries.value(name) else { continue };
            let old = self.known.is_some_and(|known| {
                entry.get("revpos").and_then(Value::as_u64).is_some_and(|at| at <= known)
            });
            if old {
                continue;
            }
            if name.is_empty() {
                return Ok(Sent::Unnamed);
            }
            entry.remove("stub");
            entry.insert("follows".into(), json!(true));
            let number = |entry: &Map<String, Value>, name: &str| entry.get(name).and_then(Value::as_u64);
            let encoded = if self.encoded { number(&entry, "encoded_length") } else { None };
            let encoding = entry.get("encoding").and_then(Value::as_str) == Some("gzip");
            let (bytes, gzip) = match encoded {
                Some(bytes) if encoding => (bytes, true),
                _ => {
                    // The digest is of the compressed form.
                    if entry.remove("encoding").is_some() {
                        entry.remove("digest");
                    }
                    entry.remove("encoded_length");
                    let bytes = number(&entry, "length").ok_or_else(|| {
                        Failure::new(
                            "invalid_json",
                            format!("{}: an attachment without a length", source.uri()),
                        )
                    })?;
                    (bytes, false)
                }
            };
            let kind =
                entry.get("content_type").and_then(Value::as_str).unwrap_or("application/octet-stream");
            let quoted: String =
                name.chars().filter(|c| !c.is_control()).collect::<String>().replace(['"', '\\'], "_");
            let mut head = format!(
                "\r\n--{BOUNDARY}\r\nContent-Disposition: attachment; filename=\"{quoted}\"\r\nContent-Type: {}\r\nContent-Length: {bytes}\r\n",
                kind.replace(['\r', '\n'], " ")
            );
            if gzip {
                head.push_str("Content-Encoding: gzip\r\n");
            }
            head.push_str("\r\n");
            length += head.len() as u64 + bytes;
            files.push_back(Part::Text(head.into_bytes()));
            let path = format!("{}/{}?rev={}", doc_path(id), escape(name), escape(rev));
            files.push_back(Part::File { path, length: bytes, gzip });
            sent.set(name, &Value::Object(entry));
        }
        let mut document = document.clone();
        document.set_text("_attachments", &sent.to_text());
        let mut first = format!("--{BOUNDARY}\r\nContent-Type: application/json\r\n\r\n").into_bytes();
        first.extend_from_slice(&document.to_text());
        let last = format!("\r\n--{BOUNDARY}--").into_bytes();
        length += (first.len() + last.len()) as u64;
        related.parts.push_back(Part::Text(first));
        related.parts.append(&mut files);
        related.parts.push_back(Part::Text(last));
        let payload = Payload::Stream {
            content_type: format!("multipart/related; boundary=\"{BOUNDARY}\""),
            length,
            reader: Box::new(related),
        };
        let call = Call { payload, ..Call::new(Method::PUT, format!("{}?new_edits=false", doc_path(id))) };
        let refused = |error, reason| Ok(Sent::Refused(Refused { rev: Some(rev.to_owned()), error, reason }));
        match target.send(call) {
            Ok(answer) if answer.is_success() => Ok(Sent::Written),
            Ok(answer) => {
                if answer.status == 404 {
                    target.info()?;
                }
                let status = answer.status;
                let (error, reason) = answer.describe();
                let error = match status {
                    // Some other time there is room: the checkpoint must not pass the document.
                    507 => return Err(Failure::new(NO_STORAGE, reason)),
                    405 => "method_not_allowed".to_owned(),
                    409 => "conflict".to_owned(),
                    412 => "missing_stub".to_owned(),
                    415 => "bad_content_type".to_owned(),
                    _ => error,
                };
                refused(error, reason)
            }
            // A function of the target's design documents may say so of one document; who may not read the database
            // either is told so of all.
            Err(failure) if failure.error == "unauthorized" => {
                target.info()?;
                refused(failure.error, failure.reason)
            }
            Err(failure) => Err(failure),
        }
    }
}

/// A body of several parts, each opened when it is its turn.
struct Related {
    parts: VecDeque<Part>,
    current: Box<dyn Read + Send>,
    source: Arc<Database>,
}

enum Part {
    Text(Vec<u8>),
    File { path: String, length: u64, gzip: bool },
}

impl Read for Related {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.current.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            match self.parts.pop_front() {
                None => return Ok(0),
                Some(Part::Text(text)) => self.current = Box::new(Cursor::new(text)),
                Some(Part::File { path, length, gzip }) => {
                    self.current = Box::new(open(&self.source, path, length, gzip)?)
                }
            }
        }
    }
}

fn open(source: &Database, path: String, length: u64, gzip: bool) -> io::Result<Exact> {
    let mut call = Call::get(path);
    call.gzip = false;
    call.headers.push((ACCEPT, "*/*"));
    call.headers.push((ACCEPT_ENCODING, if gzip { "gzip" } else { "identity" }));
    let answer = source.demand(call).map_err(io::Error::other)?;
    let packed = answer.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip");
    if packed != gzip {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the attachment came in another encoding"));
    }
    Ok(Exact { reader: answer.body, left: length })
}

/// A body that must have exactly the length that was promised.
struct Exact {
    reader: Box<dyn Read + Send>,
    left: u64,
}

impl Read for Exact {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) if count > 0 || left == 0 || buffer.is_empty() => {
                self.left = left;
                Ok(count)
            }
            _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the attachment is not as long as stated")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_must_lie_on_the_way() {
        let document = Members::parse(br#"{"_revisions":{"start":3,"ids":["c","b","a"]}}"#).unwrap();
        let newest = |revs: &[&str]| {
            newest_ancestor(&document, &revs.iter().map(|rev| (*rev).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(newest(&["1-a", "2-b"]), Some(2));
        assert_eq!(newest(&["1-a", "2-x", "4-d", "junk"]), Some(1));
        assert_eq!(newest(&["2-x"]), None);
    }

    #[test]
    fn lengths_are_held_to() {
        let read = |text: &'static [u8], left| {
            let mut out = Vec::new();
            Exact { reader: Box::new(text), left }.read_to_end(&mut out).map(|_| out)
        };
        assert_eq!(read(b"abc", 3).unwrap(), b"abc");
        assert!(read(b"abc", 4).is_err() && read(b"abc", 2).is_err());
        let text = br#"{"_id":"x","_attachments":{"a":{"length":3},"b":{"length":4}}}"#;
        assert_eq!(total(&list(text).unwrap()), 7);
        assert!(list(br#"{"a":"\"_attachments\""}"#).is_none());
    }
}
