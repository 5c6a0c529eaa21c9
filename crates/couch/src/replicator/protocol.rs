//! The client side of CouchDB's replication protocol: the requests to a database and the meaning of the answers.

use super::failure::{Failure, Kind};
use super::members::Members;
use super::peer::{Answer, Call, Payload, Peer, kind_of};
use super::stop::Stop;
use crate::error::NO_STORAGE;
use crate::http::EXACT_INTEGERS;
use diwan_value::json::ArraySplitter;
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{HeaderName, SERVER};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Characters that are escaped in a segment of a path or in a query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The pause before the first retry. It doubles with each further one.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The largest element of an answer: a document with its small attachments.
const ELEMENT: usize = 128 << 20;
/// How many bytes of an answer are read at once.
const PIECE: usize = 64 << 10;

/// Escapes a path segment or a query value.
pub(super) fn escape(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// The path of a document. The slash of a design document is not escaped because CouchDB would redirect.
pub(super) fn doc_path(id: &str) -> String {
    match id.strip_prefix("_design/") {
        Some(name) => format!("_design/{}", escape(name)),
        None => escape(id),
    }
}

/// Errors of single documents that a retry may avoid. All others are final.
const PASSING: [&str; 5] =
    ["internal_server_error", "timeout", "service_unavailable", "too_many_requests", NO_STORAGE];

/// A database with retries.
pub(super) struct Database {
    peer: Box<dyn Peer>,
    retries: u32,
    stop: Stop,
    takes_encoded: AtomicBool,
    /// Whether to request integers beyond 2^53 as plain digits.
    exact_integers: bool,
}

/// A revision fetched from the source.
pub(super) struct Fetched {
    /// The document's id.
    pub(crate) id: String,
    /// The document's text with `_revisions`; or the missing revision, if the answer names it.
    pub(crate) document: Result<Vec<u8>, Option<String>>,
}

/// A revision that the target refused.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    /// The revision, if the answer names it.
    pub(crate) rev: Option<String>,
    /// The peer's error name.
    pub(crate) error: String,
    /// The peer's reason.
    pub(crate) reason: String,
}

/// What the target lacks of a document.
#[derive(Clone, Debug, Default)]
pub(super) struct Missing {
    /// The missing revisions.
    pub(crate) revs: Vec<String>,
    /// Stored revisions that may be ancestors of those.
    pub(crate) ancestors: Vec<String>,
}

/// The outcome of writing a local document.
pub(super) enum LocalWrite {
    /// Written, with this revision.
    Written(String),
    /// Another client wrote the document first.
    Conflict,
}

impl Database {
    /// Creates a database on a peer.
    pub(super) fn new(peer: Box<dyn Peer>, retries: u32, stop: Stop) -> Database {
        Database { peer, retries, stop, takes_encoded: AtomicBool::new(false), exact_integers: false }
    }

    /// Requests exact integers, for a target that stores integers of any size. Otherwise large integers of this
    /// server are sent in a form that is safe for JavaScript.
    pub(super) fn with_exact_integers(self, exact_integers: bool) -> Database {
        Database { exact_integers, ..self }
    }

    /// The database's name for messages.
    pub(super) fn uri(&self) -> &str {
        self.peer.uri()
    }

    /// Waits briefly.
    pub(super) fn pause(&self) -> Result<(), Failure> {
        self.stop.sleep(PAUSE)
    }

    /// Retries until success, a lasting failure, or the limit of retries.
    pub(super) fn patiently<T>(&self, mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut pause = PAUSE;
        for _ in 0..self.retries {
            match attempt() {
                Err(failure) if failure.is_passing() => {
                    tracing::debug!(%failure, peer = self.uri(), "a replication request is retried");
                    let asked = match failure.kind {
                        Kind::Pause(asked) => asked.max(pause),
                        _ => pause,
                    };
                    self.stop.sleep(asked)?;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                result => return result,
            }
        }
        attempt()
    }

    /// Sends a request once. A 401 or a retryable status is a failure; the caller handles other statuses.
    pub(super) fn send(&self, mut call: Call) -> Result<Answer, Failure> {
        if self.exact_integers {
            call.headers.push((HeaderName::from_static(EXACT_INTEGERS), "true"));
        }
        let what =
            format!("{} {}{}", call.method, self.uri(), call.path.split('?').next().unwrap_or_default());
        let answer = self.peer.send(call)?;
        if answer.status == 401 {
            return Err(Failure::unauthorized(self.uri()));
        }
        let kind = kind_of(answer.status, &answer.headers);
        if kind == Kind::Lasting {
            return Ok(answer);
        }
        let (error, reason) = answer.describe();
        Err(Failure { kind, ..Failure::new(error, format!("{what}: {reason}")) })
    }

    /// Sends a request that must succeed.
    pub(super) fn demand(&self, call: Call) -> Result<Answer, Failure> {
        let what =
            format!("{} {}{}", call.method, self.uri(), call.path.split('?').next().unwrap_or_default());
        let answer = self.send(call)?;
        if answer.is_success() {
            return Ok(answer);
        }
        let status = answer.status;
        let (error, reason) = answer.describe();
        if status == 404 && (reason == "Database does not exist." || reason == "no_db_file") {
            return Err(Failure::no_database(self.uri()));
        }
        Err(Failure::new(error, format!("{what}: {status} {reason}")))
    }

    fn json(&self, answer: Answer) -> Result<Value, Failure> {
        answer.json().map_err(|error| self.broken(&error))
    }

    /// Converts an error in reading an answer.
    pub(super) fn broken(&self, error: &io::Error) -> Failure {
        if self.stop.is_stopped() {
            return Failure::stopped();
        }
        let reason = format!("{}: {error}", self.uri());
        match error.kind() {
            io::ErrorKind::InvalidData => Failure::new("invalid_json", reason),
            io::ErrorKind::TimedOut => Failure::passing("req_timedout", reason),
            _ => Failure::passing("connection_closed", reason),
        }
    }

    /// Opens the database and returns its information.
    pub(super) fn info(&self) -> Result<Map<String, Value>, Failure> {
        self.patiently(|| {
            let answer = self.send(Call::get(""))?;
            match answer.status {
                403 => return Err(Failure::unauthorized(self.uri())),
                200 => {}
                _ => return Err(Failure::no_database(self.uri())),
            }
            let server = answer.headers.get(SERVER).and_then(|name| name.to_str().ok());
            self.takes_encoded.store(server.is_some_and(|name| name.contains("CouchDB/")), Ordering::Relaxed);
            match answer.json() {
                Ok(Value::Object(info)) if info.contains_key("update_seq") => Ok(info),
                Err(error) if error.kind() != io::ErrorKind::InvalidData => Err(self.broken(&error)),
                _ => Err(Failure::no_database(self.uri())),
            }
        })
    }

    /// Whether the server accepts attachments in another server's compressed form. Known after [`Database::info`].
    /// Servers other than CouchDB and Diwan would take the compressed bytes for the content.
    pub(super) fn takes_encoded(&self) -> bool {
        self.takes_encoded.load(Ordering::Relaxed)
    }

    /// Creates the database, if it does not exist.
    pub(super) fn create(&self, params: &Map<String, Value>) -> Result<(), Failure> {
        let mut path = String::new();
        for (name, value) in params {
            path.push(if path.is_empty() { '?' } else { '&' });
            path.push_str(&format!("{}={}", escape(name), escape(&text_of(value))));
        }
        self.patiently(|| {
            let answer = self.send(Call::new(Method::PUT, path.clone()))?;
            match answer.status {
                200..=299 | 412 => Ok(()),
                403 => Err(Failure::unauthorized(self.uri())),
                _ => {
                    let (error, reason) = answer.describe();
                    Err(Failure::new(error, reason))
                }
            }
        })
    }

    /// Returns the code of a filter function. Fails if it does not exist, because the changes could not be read.
    /// Built-in filters have no code.
    pub(super) fn filter_code(&self, name: &str) -> Result<Option<String>, Failure> {
        let Some((design, function)) = name.split_once('/') else { return Ok(None) };
        self.patiently(|| {
            let answer = self.send(Call::get(format!("_design/{}", escape(design))))?;
            if !answer.is_success() {
                let (error, reason) = answer.describe();
                let reason = format!(
                    "Couldn't open document `_design/{design}` from source database `{}`: {error}: {reason}",
                    self.uri()
                );
                return Err(Failure::new("not_found", reason));
            }
            match self.json(answer)?.get("filters").and_then(|filters| filters.get(function)) {
                Some(Value::String(code)) => Ok(Some(code.clone())),
                _ => {
                    let reason = format!(
                        "Couldn't parse filter code from document {design} on `{}` Error: missing json key: {function}",
                        self.uri()
                    );
                    Err(Failure::new("not_found", reason))
                }
            }
        })
    }

    /// Returns a local document, if it exists.
    pub(super) fn local(&self, id: &str) -> Result<Option<Map<String, Value>>, Failure> {
        self.patiently(|| {
            let answer = self.send(Call::get(format!("_local/{}", escape(id))))?;
            if answer.status == 404 {
                return Ok(None);
            }
            if !answer.is_success() {
                let (error, reason) = answer.describe();
                return Err(Failure::new(error, reason));
            }
            match self.json(answer)? {
                Value::Object(object) => Ok(Some(object)),
                _ => Ok(None),
            }
        })
    }

    /// Writes a local document.
    pub(super) fn put_local(&self, id: &str, body: &Map<String, Value>) -> Result<LocalWrite, Failure> {
        let text = Bytes::from(Value::Object(body.clone()).to_string());
        self.patiently(|| {
            let path = format!("_local/{}", escape(id));
            let call = Call { payload: Payload::Json(text.clone()), ..Call::new(Method::PUT, path) };
            let answer = self.send(call)?;
            if answer.status == 409 {
                return Ok(LocalWrite::Conflict);
            }
            if !answer.is_success() {
                let (error, reason) = answer.describe();
                return Err(Failure::new(error, reason));
            }
            let rev = self.json(answer)?.get("rev").and_then(Value::as_str).unwrap_or_default().to_owned();
            Ok(LocalWrite::Written(rev))
        })
    }

    /// Returns the creation time that distinguishes the database from others of its name, without retries.
    pub(super) fn instance(&self) -> Result<Option<Value>, Failure> {
        let answer = self.demand(Call::get(""))?;
        Ok(self.json(answer)?.get("instance_start_time").cloned())
    }

    /// Waits until all writes are durable in the peer; returns the database's creation time.
    pub(super) fn ensure_full_commit(&self) -> Result<Value, Failure> {
        self.patiently(|| {
            let answer = self.demand(Call::post("_ensure_full_commit", "{}"))?;
            Ok(self.json(answer)?.get("instance_start_time").cloned().unwrap_or_default())
        })
    }

    /// Returns how many changes follow a sequence, if the peer reports it.
    pub(super) fn pending(&self, since: &Value) -> Option<u64> {
        let path = format!("_changes?limit=0&since={}", escape(&text_of(since)));
        let answer = self.demand(Call::get(path)).ok()?;
        answer.json().ok()?.get("pending")?.as_u64()
    }

    /// Returns which of these revisions the database lacks.
    pub(super) fn revs_diff(
        &self,
        wanted: &HashMap<&str, Vec<&str>>,
    ) -> Result<HashMap<String, Missing>, Failure> {
        let answer = self.demand(Call::post("_revs_diff", json!(wanted).to_string()))?;
        let Value::Object(object) = self.json(answer)? else {
            return Err(Failure::new(
                "invalid_json",
                format!("{}: _revs_diff returned no object", self.uri()),
            ));
        };
        let list = |value: Option<&Value>| -> Vec<String> {
            let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        Ok(object
            .into_iter()
            .map(|(id, missing)| {
                let revs = list(missing.get("missing"));
                (id, Missing { revs, ancestors: list(missing.get("possible_ancestors")) })
            })
            .collect())
    }

    /// Fetches revisions with one request; `None` if the peer does not support `_bulk_get`.
    pub(super) fn bulk_get(
        &self,
        wanted: &[(String, String)],
        attachments: bool,
        mut take: impl FnMut(Fetched) -> Result<(), Failure>,
    ) -> Result<Option<()>, Failure> {
        let docs: Vec<Value> = wanted.iter().map(|(id, rev)| json!({ "id": id, "rev": rev })).collect();
        // The stubs state which attachments are compressed.
        let path = format!(
            "_bulk_get?revs=true&latest=true&attachments={attachments}&att_encoding_info={}",
            !attachments
        );
        let answer = self.send(Call::post(path, json!({ "docs": docs }).to_string()))?;
        match answer.status {
            200 => {}
            400 | 404 | 405 | 415 | 501 => {
                // A missing database is reported as such.
                self.info()?;
                return Ok(None);
            }
            _ => {
                let (error, reason) = answer.describe();
                return Err(Failure::new(error, format!("POST {}_bulk_get: {reason}", self.uri())));
            }
        }
        self.elements(answer, "results", |element| {
            let members = Members::parse(element).map_err(|error| self.no_json(&error))?;
            let id = members.string("id").unwrap_or_default();
            let docs: Vec<Members> = match members.get("docs") {
                Some(text) => serde_json::from_str(text).map_err(|error| self.no_json(&error))?,
                None => Vec::new(),
            };
            for doc in docs {
                let document = match doc.get("ok") {
                    Some(text) => Ok(text.as_bytes().to_vec()),
                    None => Err(refused(&doc.value("error").unwrap_or_default()).rev),
                };
                take(Fetched { id: id.clone(), document })?;
            }
            Ok(())
        })?;
        Ok(Some(()))
    }

    /// Fetches revisions of one document. Any error but a missing document is a failure, because no revision of the
    /// source may be skipped.
    pub(super) fn open_revs(
        &self,
        id: &str,
        revs: &[String],
        mut take: impl FnMut(Fetched) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let list = escape(&json!(revs).to_string());
        let path = doc_path(id);
        let call = Call::get(format!("{path}?revs=true&latest=true&att_encoding_info=true&open_revs={list}"));
        let answer = self.send(call)?;
        if answer.status == 404 {
            self.info()?;
            return take(Fetched { id: id.to_owned(), document: Err(None) });
        }
        let answer = self.successful(answer, &path)?;
        let text = answer.bytes().map_err(|error| self.broken(&error))?;
        let list: Vec<Members> = serde_json::from_slice(&text).map_err(|error| self.no_json(&error))?;
        for item in list {
            let document = match item.get("ok") {
                Some(text) => Ok(text.as_bytes().to_vec()),
                None => Err(item.string("missing")),
            };
            take(Fetched { id: id.to_owned(), document })?;
        }
        Ok(())
    }

    /// Fails unless the answer is successful.
    pub(super) fn successful(&self, answer: Answer, path: &str) -> Result<Answer, Failure> {
        if answer.is_success() {
            return Ok(answer);
        }
        let status = answer.status;
        let (error, reason) = answer.describe();
        Err(Failure::new(error, format!("{}{path}: {status} {reason}", self.uri())))
    }

    /// Fetches a revision with its attachments inline; `None` if it is too long.
    pub(super) fn inline(&self, id: &str, rev: &str) -> Result<Option<Vec<u8>>, Failure> {
        let path = doc_path(id);
        let call = Call::get(format!("{path}?rev={}&revs=true&attachments=true", escape(rev)));
        let answer = self.send(call)?;
        let answer = self.successful(answer, &path)?;
        match answer.bytes() {
            Ok(text) => Ok(Members::parse(&text).is_ok().then_some(text)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// Writes replicated revisions and returns the refused ones; `None` if the request is too large or one document
    /// of several is malformed. With `relaxed`, the caller ensures durability later.
    pub(super) fn bulk_docs(&self, docs: &[Vec<u8>], relaxed: bool) -> Result<Option<Vec<Refused>>, Failure> {
        let length = docs.iter().map(|doc| doc.len() + 1).sum::<usize>() + 32;
        let mut body = Vec::with_capacity(length);
        body.extend_from_slice(br#"{"new_edits":false,"docs":["#);
        for (position, doc) in docs.iter().enumerate() {
            if position > 0 {
                body.push(b',');
            }
            body.extend_from_slice(doc);
        }
        body.extend_from_slice(b"]}");
        let call = Call { relaxed, ..Call::post("_bulk_docs", body) };
        let answer = self.send(call)?;
        match answer.status {
            413 => return Ok(None),
            // One malformed document makes the peer refuse the whole list.
            400 | 417 if docs.len() > 1 => return Ok(None),
            400 | 417 => {
                let (error, reason) = answer.describe();
                return Ok(Some(vec![Refused { rev: None, error, reason }]));
            }
            200..=299 => {}
            404 => {
                self.info()?;
                return Err(Failure::new("not_found", format!("POST {}_bulk_docs", self.uri())));
            }
            _ => {
                let (error, reason) = answer.describe();
                return Err(Failure::new(error, format!("POST {}_bulk_docs: {reason}", self.uri())));
            }
        }
        let Value::Array(rows) = self.json(answer)? else {
            return Err(Failure::new("invalid_json", format!("{}: _bulk_docs returned no list", self.uri())));
        };
        let refusals: Vec<&Value> = rows.iter().filter(|row| row.get("error").is_some()).collect();
        // A refusal that may pass fails the batch, so that it is retried and no checkpoint passes it.
        if let Some(row) = refusals.iter().find(|row| may_pass(row)) {
            let Refused { rev, error, reason } = refused(row);
            let id = row.get("id").and_then(Value::as_str).unwrap_or_default();
            let rev = rev.unwrap_or_default();
            let reason = format!("POST {}_bulk_docs: {id} {rev}: {reason}", self.uri());
            return Err(Failure::passing(error, reason));
        }
        Ok(Some(refusals.into_iter().map(refused).collect()))
    }

    /// Passes the elements of an array in an answer to `take`, one at a time; returns the other members.
    pub(super) fn elements(
        &self,
        answer: Answer,
        array: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<Map<String, Value>, Failure> {
        let mut splitter = ArraySplitter::new(array, ELEMENT);
        let mut body = answer.body;
        let mut piece = vec![0; PIECE];
        loop {
            let count = match body.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) => return Err(self.broken(&error)),
            };
            splitter.feed(&piece[..count]);
            while let Some(element) = splitter.next_element().map_err(|error| self.no_json(&error))? {
                take(element)?;
            }
        }
        let others = splitter.finish().map_err(|_| {
            Failure::passing("connection_closed", format!("{}: the answer is incomplete", self.uri()))
        })?;
        serde_json::from_slice(&others).map_err(|error| self.no_json(&error))
    }

    fn no_json(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::new("invalid_json", format!("{}: {error}", self.uri()))
    }
}

/// Whether a refused document may be accepted later.
fn may_pass(row: &Value) -> bool {
    let status = row.get("status").and_then(Value::as_u64).unwrap_or(0);
    let error = row.get("error").and_then(Value::as_str).unwrap_or_default();
    PASSING.contains(&error) || matches!(status, 408 | 429 | 502..=504 | 507)
}

fn refused(value: &Value) -> Refused {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    Refused {
        rev: text("rev"),
        error: text("error").unwrap_or_else(|| "unknown_error".to_owned()),
        reason: text("reason").unwrap_or_default(),
    }
}

/// Formats a parameter's value: a string as it is, others as JSON.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
