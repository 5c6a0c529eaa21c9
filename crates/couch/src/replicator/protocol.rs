//! CouchDB's replication protocol: what is asked of a database, and what its answers mean.

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

/// What is escaped in a part of a path or query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The first pause before a request is tried again; it doubles.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The largest element of an answer: a document with its small attachments.
const ELEMENT: usize = 128 << 20;
/// How much of an answer is read at once.
const PIECE: usize = 64 << 10;

/// Escapes a part of a path or of a query.
pub fn escape(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// The path of a document. CouchDB answers a design document with an escaped slash by a redirect.
pub fn doc_path(id: &str) -> String {
    match id.strip_prefix("_design/") {
        Some(name) => format!("_design/{}", escape(name)),
        None => escape(id),
    }
}

/// Errors of single documents that a later attempt may not meet. The others are the target's last word on a document.
const PASSING: [&str; 5] =
    ["internal_server_error", "timeout", "service_unavailable", "too_many_requests", NO_STORAGE];

/// A database and how patient we are with it.
pub struct Database {
    peer: Box<dyn Peer>,
    retries: u32,
    stop: Stop,
    takes_encoded: AtomicBool,
    /// Whether documents go to somebody who keeps integers of any size.
    exact_integers: bool,
}

/// A document's revision as it was fetched.
pub struct Fetched {
    /// The id.
    pub id: String,
    /// The text of the document, with `_revisions`; or the revision that was not given, if it was named.
    pub document: Result<Vec<u8>, Option<String>>,
}

/// A revision that was not written.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The revision, if it was named.
    pub rev: Option<String>,
    /// The peer's name of the error.
    pub error: String,
    /// The peer's reason.
    pub reason: String,
}

/// What the target lacks of one document.
#[derive(Clone, Debug, Default)]
pub struct Missing {
    /// The revisions.
    pub revs: Vec<String>,
    /// Revisions it has that may be ancestors of those.
    pub ancestors: Vec<String>,
}

/// How a write of a local document ended.
pub enum LocalWrite {
    /// With this revision.
    Written(String),
    /// Somebody else has written it.
    Conflict,
}

impl Database {
    /// A database behind a peer.
    pub fn new(peer: Box<dyn Peer>, retries: u32, stop: Stop) -> Database {
        Database { peer, retries, stop, takes_encoded: AtomicBool::new(false), exact_integers: false }
    }

    /// The same, for a target that keeps integers of any size: it is not given those of this server's types in a form
    /// for JavaScript.
    pub fn with_exact_integers(self, exact_integers: bool) -> Database {
        Database { exact_integers, ..self }
    }

    /// How it is named in messages.
    pub fn uri(&self) -> &str {
        self.peer.uri()
    }

    /// Waits a little.
    pub fn pause(&self) -> Result<(), Failure> {
        self.stop.sleep(PAUSE)
    }

    /// Tries until it works, the failure is no passing one, or it was tried often enough.
    pub fn patiently<T>(&self, mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut pause = PAUSE;
        for _ in 0..self.retries {
            match attempt() {
                Err(failure) if failure.is_passing() => {
                    tracing::debug!(%failure, peer = self.uri(), "a request of a replication is tried again");
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

    /// Sends once. What the peer cannot do now, and what it does not let us do, is a failure; other statuses are not.
    pub fn send(&self, mut call: Call) -> Result<Answer, Failure> {
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

    /// Sends, and takes nothing but success.
    pub fn demand(&self, call: Call) -> Result<Answer, Failure> {
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

    /// An answer that could not be read to its end.
    pub fn broken(&self, error: &io::Error) -> Failure {
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

    /// Opens the database: what it tells of itself.
    pub fn info(&self) -> Result<Map<String, Value>, Failure> {
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

    /// Whether the server that was asked for [`Database::info`] takes attachments in the compressed form in which
    /// another keeps them. Others than CouchDB and Diwan would take that form for the content.
    pub fn takes_encoded(&self) -> bool {
        self.takes_encoded.load(Ordering::Relaxed)
    }

    /// Creates the database; one that is there already is as good.
    pub fn create(&self, params: &Map<String, Value>) -> Result<(), Failure> {
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

    /// The text of a filter function. One that the database does not have is refused: its changes could not be read.
    /// Filters that are not functions have no text.
    pub fn filter_code(&self, name: &str) -> Result<Option<String>, Failure> {
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

    /// A local document, if there is one.
    pub fn local(&self, id: &str) -> Result<Option<Map<String, Value>>, Failure> {
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
    pub fn put_local(&self, id: &str, body: &Map<String, Value>) -> Result<LocalWrite, Failure> {
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

    /// What tells the database from another of its name, asked for once.
    pub fn instance(&self) -> Result<Option<Value>, Failure> {
        let answer = self.demand(Call::get(""))?;
        Ok(self.json(answer)?.get("instance_start_time").cloned())
    }

    /// Waits until all that was written is on the peer's disk; when the peer says the database was created.
    pub fn ensure_full_commit(&self) -> Result<Value, Failure> {
        self.patiently(|| {
            let answer = self.demand(Call::post("_ensure_full_commit", "{}"))?;
            Ok(self.json(answer)?.get("instance_start_time").cloned().unwrap_or_default())
        })
    }

    /// How many changes there are after a sequence, where the peer tells.
    pub fn pending(&self, since: &Value) -> Option<u64> {
        let path = format!("_changes?limit=0&since={}", escape(&text_of(since)));
        let answer = self.demand(Call::get(path)).ok()?;
        answer.json().ok()?.get("pending")?.as_u64()
    }

    /// What the database lacks of these documents' revisions.
    pub fn revs_diff(&self, wanted: &HashMap<&str, Vec<&str>>) -> Result<HashMap<String, Missing>, Failure> {
        let answer = self.demand(Call::post("_revs_diff", json!(wanted).to_string()))?;
        let Value::Object(object) = self.json(answer)? else {
            return Err(Failure::new("invalid_json", format!("{}: _revs_diff gave no object", self.uri())));
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

    /// Fetches revisions, all with one request. `None` when the peer does not know such requests.
    pub fn bulk_get(
        &self,
        wanted: &[(String, String)],
        attachments: bool,
        mut take: impl FnMut(Fetched) -> Result<(), Failure>,
    ) -> Result<Option<()>, Failure> {
        let docs: Vec<Value> = wanted.iter().map(|(id, rev)| json!({ "id": id, "rev": rev })).collect();
        // With attachments as stubs it is told which of them are kept compressed.
        let path = format!(
            "_bulk_get?revs=true&latest=true&attachments={attachments}&att_encoding_info={}",
            !attachments
        );
        let answer = self.send(Call::post(path, json!({ "docs": docs }).to_string()))?;
        match answer.status {
            200 => {}
            400 | 404 | 405 | 415 | 501 => {
                // A database that is gone has its own failure.
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

    /// Fetches revisions of one document. That it is refused, other than as missing, is a failure: what the source has
    /// must not be passed over.
    pub fn open_revs(
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

    /// An answer that is a success; another one is a failure of the request as it is.
    pub fn successful(&self, answer: Answer, path: &str) -> Result<Answer, Failure> {
        if answer.is_success() {
            return Ok(answer);
        }
        let status = answer.status;
        let (error, reason) = answer.describe();
        Err(Failure::new(error, format!("{}{path}: {status} {reason}", self.uri())))
    }

    /// A revision with its attachments within it, unless that is too long.
    pub fn inline(&self, id: &str, rev: &str) -> Result<Option<Vec<u8>>, Failure> {
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

    /// Writes revisions as they are; those that were refused. `None` when the peer finds them too large together.
    /// `relaxed` is who makes sure of the disk later.
    pub fn bulk_docs(&self, docs: &[Vec<u8>], relaxed: bool) -> Result<Option<Vec<Refused>>, Failure> {
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
            // One document of the list that cannot be read spoils the list.
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
            return Err(Failure::new("invalid_json", format!("{}: _bulk_docs gave no list", self.uri())));
        };
        let refusals: Vec<&Value> = rows.iter().filter(|row| row.get("error").is_some()).collect();
        if let Some(row) = refusals.iter().find(|row| may_pass(row)) {
            let Refused { rev, error, reason } = refused(row);
            let id = row.get("id").and_then(Value::as_str).unwrap_or_default();
            let rev = rev.unwrap_or_default();
            let reason = format!("POST {}_bulk_docs: {id} {rev}: {reason}", self.uri());
            return Err(Failure::passing(error, reason));
        }
        Ok(Some(refusals.into_iter().map(refused).collect()))
    }

    /// The elements of an array in an answer, one at a time; the members beside it.
    pub fn elements(
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
            Failure::passing("connection_closed", format!("{}: the answer broke off", self.uri()))
        })?;
        serde_json::from_slice(&others).map_err(|error| self.no_json(&error))
    }

    fn no_json(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::new("invalid_json", format!("{}: {error}", self.uri()))
    }
}

/// Whether a document that was refused so may be taken later.
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

/// A parameter's value: strings as they are, the rest as JSON.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
