//! Copies documents with large attachments as `multipart/related`. Each attachment is read from the source while it
//! is written to the target, so none is held in memory.

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

/// The boundary between the parts. Lengths are stated, so the text may also occur in the parts.
const BOUNDARY: &str = "3b6c1f0e7a944d58b2d0c5e8f1a7d263";

/// The outcome of a copy.
pub(super) enum Sent {
    /// The target has stored the revision, sent in this many bytes.
    Written(u64),
    /// The target refused the revision.
    Refused(Refused),
    /// The source does not have the revision.
    Gone,
    /// An attachment has the empty name, so no path can fetch it separately.
    Unnamed,
}

/// Returns the `_attachments` member of a document's text, unless it is empty.
pub(super) fn list(text: &[u8]) -> Option<Map<String, Value>> {
    memchr::memmem::find(text, b"\"_attachments\"")?;
    let list = Members::parse(text).ok()?.value("_attachments")?;
    list.as_object().filter(|list| !list.is_empty()).cloned()
}

/// Whether the source stores an attachment compressed. If it were fetched within the document, it would be
/// decompressed; the target would compress it again, possibly to different bytes with another digest.
pub(super) fn has_packed(list: &Map<String, Value>) -> bool {
    list.values().any(|entry| entry.get("encoding").is_some())
}

/// The sum of the attachments' lengths.
pub(super) fn total(list: &Map<String, Value>) -> u64 {
    list.values().map(|entry| entry.get("length").and_then(Value::as_u64).unwrap_or(u64::MAX / 1024)).sum()
}

/// Copies one revision with its attachments, compressed as at the source if `encoded`. Attachments that the target
/// has in one of the revisions `ancestors` are sent as stubs.
pub(super) fn copy(
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
            // The target lacks an attachment of the ancestor: send all of them.
            Ok(Sent::Refused(refused)) if refused.error == "missing_stub" && attempt.known.is_some() => {
                attempt.known = None;
            }
            // The target lacks what it just claimed to have; it may have changed between two requests.
            Ok(Sent::Refused(Refused { error, reason, .. })) if error == "missing_stub" => {
                return Err(Failure::passing(error, format!("PUT {}{path}: {reason}", target.uri())));
            }
            // The source cannot deliver the compressed form: send the plain one.
            Err(failure) if failure.error == "attachment_read_failed" && attempt.encoded => {
                attempt.encoded = false
            }
            result => return result,
        }
    }
}

/// Returns the generation of the newest of `ancestors` that this revision descends from.
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

/// How one attempt sends the document.
struct Attempt {
    /// Attachments up to this generation are sent as stubs.
    known: Option<u64>,
    /// Whether compressed attachments are sent compressed.
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
            // The total length must be known in advance, so headers are formatted now and bytes fetched later.
            files.push_back(RelatedPart::Text(head.into_bytes()));
            let path = format!("{}/{}?rev={}", doc_path(id), escape(name), escape(rev));
            files.push_back(RelatedPart::File { path, length: bytes, gzip });
            sent.set(name, &Value::Object(entry));
        }
        let mut document = document.clone();
        document.set_text("_attachments", &sent.to_text());
        let mut first = format!("--{BOUNDARY}\r\nContent-Type: application/json\r\n\r\n").into_bytes();
        first.extend_from_slice(&document.to_text());
        let last = format!("\r\n--{BOUNDARY}--").into_bytes();
        length += (first.len() + last.len()) as u64;
        related.parts.push_back(RelatedPart::Text(first));
        related.parts.append(&mut files);
        related.parts.push_back(RelatedPart::Text(last));
        let payload = Payload::Stream {
            content_type: format!("multipart/related; boundary=\"{BOUNDARY}\""),
            length,
            reader: Box::new(related),
        };
        let call = Call { payload, ..Call::new(Method::PUT, format!("{}?new_edits=false", doc_path(id))) };
        let refused = |error, reason| Ok(Sent::Refused(Refused { rev: Some(rev.to_owned()), error, reason }));
        match target.send(call) {
            Ok(answer) if answer.is_success() => Ok(Sent::Written(length)),
            Ok(answer) => {
                if answer.status == 404 {
                    target.info()?;
                }
                let status = answer.status;
                let (error, reason) = answer.describe();
                let error = match status {
                    // There may be room later, so the checkpoint must not pass this document.
                    507 => return Err(Failure::new(NO_STORAGE, reason)),
                    405 => "method_not_allowed".to_owned(),
                    409 => "conflict".to_owned(),
                    412 => "missing_stub".to_owned(),
                    415 => "bad_content_type".to_owned(),
                    _ => error,
                };
                refused(error, reason)
            }
            // A validation function of the target may refuse a single document like this. If the credentials are
            // wrong, the request for the database's information fails too.
            Err(failure) if failure.error == "unauthorized" => {
                target.info()?;
                refused(failure.error, failure.reason)
            }
            Err(failure) => Err(failure),
        }
    }
}

/// A multipart body whose parts are opened one after the other.
struct Related {
    parts: VecDeque<RelatedPart>,
    current: Box<dyn Read + Send>,
    source: Arc<Database>,
}

enum RelatedPart {
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
                Some(RelatedPart::Text(text)) => self.current = Box::new(Cursor::new(text)),
                Some(RelatedPart::File { path, length, gzip }) => {
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
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the attachment has another encoding than requested",
        ));
    }
    Ok(Exact { reader: answer.body, left: length })
}

/// Fails unless the body has exactly the stated length.
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
    fn newest_ancestor_ignores_other_branches() {
        let document = Members::parse(br#"{"_revisions":{"start":3,"ids":["c","b","a"]}}"#).unwrap();
        let newest = |revs: &[&str]| {
            newest_ancestor(&document, &revs.iter().map(|rev| (*rev).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(newest(&["1-a", "2-b"]), Some(2));
        assert_eq!(newest(&["1-a", "2-x", "4-d", "junk"]), Some(1));
        assert_eq!(newest(&["2-x"]), None);
    }

    #[test]
    fn exact_refuses_other_lengths_and_total_sums_them() {
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
