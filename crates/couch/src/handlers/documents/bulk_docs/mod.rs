//! `POST /{db}/_bulk_docs`: stores many documents, each on its own.
//!
//! A body of ordinary size is parsed completely before anything is stored, so that a malformed body changes nothing,
//! as in CouchDB. Requests with long bodies take turns to hold them in memory. The documents of a body longer than
//! [`HELD_BYTES`] are stored while the rest is still being received. The results are kept in a [`Spool`] until the body ends, because a client that is still sending
//! does not read.

mod spool;

use crate::auth::Witness;
use crate::document::push_rev;
use crate::edit::{
    Author, Context, Draft, Named, Validation, Written, edit_all, edit_one, error_of, name_owner,
};
use crate::error::{Error, Result};
use crate::http::{Body, Received, Request, Response, begins_as_object};
use crate::mango;
use crate::server::Couch;
use crate::users;
use diwan_kv::CommitId;
use diwan_store::{Base, Collection, RevisionOutcome};
use diwan_value::json::{ArraySplitter, Limits, parse_document, write_string};
use diwan_value::{DocBuf, Value};
use hyper::StatusCode;
use serde_json::Value as Json;
use serde_json::value::RawValue;
use spool::Spool;
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

/// How many bytes of the body are read at once.
const PIECE: usize = 256 << 10;
/// How many bytes of documents are held before storing begins.
const HELD_BYTES: usize = 32 << 20;
/// How many documents, and how many bytes of them, are stored in one batch.
const BATCH_DOCUMENTS: usize = 1000;
const BATCH_BYTES: usize = 4 << 20;

/// Stores the documents.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let collection = request.database()?;
    request.require_json()?;
    let mut body = request.take_body();
    let couch = request.couch.clone();
    let mut bulk = Bulk {
        validation: Validation::of(&couch, &collection, Author::of(request))?,
        author: Author::of(request),
        witness: Witness::of(&request.caller, request.peer, &request.method, &request.path),
        results: Spool::new(couch.config.temporary.clone()),
        collection,
        couch,
        replicated: None,
        is_atomic: false,
        has_histories: false,
        texts: Vec::new(),
        ends: Vec::new(),
        drafts: Vec::new(),
        held: 0,
        streaming: false,
        begun: false,
        read: 0,
        stored: 0,
        commit: None,
    };
    match bulk.read_and_store(&mut body) {
        Ok(()) => bulk.answer(),
        Err(mut error) => {
            if bulk.stored > 0 {
                let stored = bulk.stored;
                error.reason = format!(
                    "{} (the first {stored} documents of the request had been stored or refused before)",
                    error.reason
                )
                .into();
            }
            Err(error)
        }
    }
}

/// The state of one request.
struct Bulk {
    couch: Arc<Couch>,
    collection: Arc<Collection>,
    validation: Validation,
    author: Author,
    /// Tells the audit log of refused documents.
    witness: Witness,
    /// Whether the edits are replicated (`new_edits=false`); `None` until known.
    replicated: Option<bool>,
    /// `all_or_nothing`, which current CouchDB does not support: as there, no document is stored.
    is_atomic: bool,
    /// A held document contains `_revisions`.
    has_histories: bool,
    /// The text of documents that cannot be parsed until `new_edits` is known, and the end of each.
    texts: Vec<u8>,
    ends: Vec<usize>,
    /// Parsed documents that are not stored yet.
    drafts: Vec<Draft>,
    /// The memory of these documents.
    held: usize,
    /// Storing began before the body was complete.
    streaming: bool,
    /// Something of the body was read.
    begun: bool,
    /// How many documents were parsed.
    read: usize,
    /// How many of them were stored or refused.
    stored: usize,
    results: Spool,
    commit: Option<CommitId>,
}

impl Bulk {
    fn read_and_store(&mut self, body: &mut Body) -> Result<()> {
        let mut splitter = ArraySplitter::new("docs", self.couch.max_request_bytes());
        let directory = self.couch.config.temporary.clone();
        let Received { mut first, length, pass } = body.receive(HELD_BYTES, directory.as_deref())?;
        self.read(&mut first, &mut splitter)?;
        drop(first);
        if length == HELD_BYTES {
            // The rest may come slowly, so nothing is held while the client sends it.
            self.begin_streaming()?;
            drop(pass);
            self.read(body, &mut splitter)?;
        }
        self.finish(splitter)
    }

    /// Takes the documents from a part of the body.
    fn read(&mut self, part: &mut impl Read, splitter: &mut ArraySplitter) -> Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            let count = part.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            if !std::mem::replace(&mut self.begun, true) {
                begins_as_object(&piece[..count])?;
            }
            splitter.feed(&piece[..count]);
            loop {
                let is_new = !splitter.found();
                let Some(text) = splitter.next_element()? else { break };
                // Once `new_edits` is known, documents are parsed as they arrive.
                if self.replicated.is_some() {
                    self.take(text)?;
                    continue;
                }
                self.texts.extend_from_slice(text);
                self.ends.push(self.texts.len());
                self.has_histories |= memchr::memmem::find(text, b"\"_revisions\"").is_some();
                // The members before `docs` may decide how the documents are parsed.
                if is_new {
                    let members = self.members(&[splitter.members(), b"}"].concat())?;
                    self.replicated = new_edits(&members)?.map(|new_edits| !new_edits);
                    self.is_atomic = is_atomic(&members);
                }
                if self.replicated.is_some() || self.streaming || self.texts.len() > HELD_BYTES {
                    self.read_held()?;
                }
            }
        }
    }

    /// Stores the documents that are held, and lets later ones be stored in small batches.
    fn begin_streaming(&mut self) -> Result<()> {
        self.streaming = true;
        if self.ends.is_empty() { Ok(()) } else { self.read_held() }?;
        self.store(0)
    }

    /// Checks the whole body, and stores the documents that are held.
    fn finish(&mut self, splitter: ArraySplitter) -> Result<()> {
        let found = splitter.found();
        let members = splitter.finish()?;
        let members = self.members(&members)?;
        if !found {
            return Err(Error::bad_request(match members.as_doc().get("docs") {
                None => "POST body must include `docs` parameter.",
                Some(_) => "`docs` parameter must be an array.",
            }));
        }
        let replicated = new_edits(&members)?.map(|new_edits| !new_edits);
        match (self.replicated, replicated) {
            (None, replicated) => self.replicated = Some(replicated.unwrap_or(false)),
            (Some(false), Some(true)) => {
                let message = "In a request of this length `new_edits` must precede `docs`: the documents were \
                               stored as new edits";
                return Err(Error::bad_request(message));
            }
            _ => {}
        }
        self.is_atomic |= is_atomic(&members);
        if self.aborts() && self.stored > 0 {
            let message = "In a request of this length `all_or_nothing` must precede `docs`";
            return Err(Error::bad_request(message));
        }
        self.read_held()?;
        if self.aborts() {
            for draft in std::mem::take(&mut self.drafts) {
                self.abort(&draft)?;
            }
        }
        self.store(0)
    }

    /// Whether no document is to be stored.
    fn aborts(&self) -> bool {
        self.is_atomic && self.replicated != Some(true)
    }

    /// Refuses a document of an `all_or_nothing` request.
    fn abort(&mut self, draft: &Draft) -> Result<()> {
        let rev = match draft.base() {
            Some((_, Base::Leaf(revision))) => revision.to_string(),
            _ => "0-".to_owned(),
        };
        let error = Error::new(500, "not_implemented", "all_or_nothing is not supported");
        self.write_failure(&draft.id, Some(rev), &error)
    }

    /// Parses the members of the body other than the documents.
    fn members(&self, text: &[u8]) -> Result<DocBuf> {
        Ok(parse_document(text, Limits::default())?)
    }

    /// Parses the documents whose text was held.
    fn read_held(&mut self) -> Result<()> {
        if self.replicated.is_none() {
            if self.has_histories {
                let message = "In a request of this length `new_edits` must precede `docs`";
                return Err(Error::bad_request(message));
            }
            self.replicated = Some(false);
        }
        let (texts, ends) = (std::mem::take(&mut self.texts), std::mem::take(&mut self.ends));
        let mut start = 0;
        for end in ends {
            self.take(&texts[start..end])?;
            start = end;
        }
        Ok(())
    }

    /// Parses a document, and stores the held documents if they have become too large.
    fn take(&mut self, text: &[u8]) -> Result<()> {
        self.read += 1;
        let context = Context {
            couch: &self.couch,
            collection: &self.collection,
            max_bytes: self.couch.max_document_bytes(),
            replicated: self.replicated.unwrap_or(false),
        };
        let draft = Draft::read(&context, text, None, &Named::default(), || self.couch.new_id(), None);
        let draft = match draft {
            Ok(draft) => draft,
            Err(error) if error.is_own_limit => return self.refuse(text, &error),
            Err(mut error) => {
                if error.reason.contains(" at byte ") {
                    error.reason = format!("{} of document {}", error.reason, self.read).into();
                }
                return Err(error);
            }
        };
        if self.aborts() {
            return self.abort(&draft);
        }
        self.held += draft.weight();
        self.drafts.push(draft);
        self.streaming |= self.held > HELD_BYTES;
        if self.streaming && (self.drafts.len() >= BATCH_DOCUMENTS || self.held >= BATCH_BYTES) {
            self.store(0)?;
        }
        Ok(())
    }

    /// Stores the held documents except the last `rest`.
    fn store(&mut self, rest: usize) -> Result<()> {
        let mut drafts = std::mem::take(&mut self.drafts).into_iter();
        let mut batch = Vec::with_capacity(drafts.len().min(BATCH_DOCUMENTS));
        let mut bytes = 0;
        while drafts.len() > rest {
            let Some(draft) = drafts.next() else { break };
            bytes += draft.weight();
            batch.push(draft);
            if batch.len() == BATCH_DOCUMENTS || bytes >= BATCH_BYTES {
                self.store_batch(&mut batch)?;
                bytes = 0;
            }
        }
        self.store_batch(&mut batch)?;
        self.drafts = drafts.collect();
        self.held = self.drafts.iter().map(Draft::weight).sum();
        Ok(())
    }

    fn store_batch(&mut self, batch: &mut Vec<Draft>) -> Result<()> {
        if users::is_users(&self.collection.namespace()) {
            return self.store_users(batch);
        }
        let mut outcomes: Vec<Option<std::result::Result<RevisionOutcome, Error>>> = Vec::new();
        for draft in batch.iter_mut() {
            let named = name_owner(&self.couch, &self.collection, &self.author, draft);
            if let Err(error) = named {
                outcomes.push(Some(Err(error)));
                continue;
            }
            outcomes.push(self.validation.check(&self.couch, &self.collection, draft).err().map(Err));
        }
        let mut edits = Vec::with_capacity(batch.len());
        let mut places = Vec::with_capacity(batch.len());
        for (at, draft) in batch.iter().enumerate().filter(|(at, _)| outcomes[*at].is_none()) {
            if let Some(edit) = draft.edit() {
                edits.push(edit);
                places.push(at);
            }
        }
        let report = edit_all(&self.couch, &self.collection, &edits, self.author.waiting.as_ref())?;
        drop(edits);
        if batch.iter().any(|draft| draft.id.starts_with("_design/")) {
            mango::follow_soon(&self.couch, &self.collection);
        }
        self.commit = report.commit.max(self.commit);
        for (at, outcome) in places.into_iter().zip(report.outcomes) {
            outcomes[at] = Some(Ok(outcome));
        }
        for (draft, outcome) in batch.drain(..).zip(outcomes) {
            match outcome {
                Some(Ok(RevisionOutcome::Written(revision) | RevisionOutcome::Known(revision))) => {
                    self.write_ok(&draft.id, |out| push_rev(out, &revision))?;
                }
                Some(Ok(outcome)) => self.write_error(&draft, &error_of(outcome))?,
                Some(Err(error)) => self.write_error(&draft, &error)?,
                None if draft.is_local() => self.store_local(draft)?,
                // The edit names a revision that this store cannot contain.
                None => self.write_error(&draft, &Error::conflict())?,
            }
            self.stored += 1;
        }
        Ok(())
    }

    /// The documents of users are stored one by one: rules over all of them hold after each.
    fn store_users(&mut self, batch: &mut Vec<Draft>) -> Result<()> {
        for draft in batch.drain(..) {
            let id = draft.id.clone();
            let rev = match draft.base() {
                Some((_, Base::Graft { revision, .. })) => Some(revision.to_string()),
                _ => None,
            };
            match edit_one(&self.couch, &self.collection, &self.author, draft) {
                Ok(Written { rev, commit, .. }) => {
                    self.commit = commit.max(self.commit);
                    self.write_ok(&id, |out| out.extend_from_slice(rev.as_bytes()))?;
                }
                Err(error) if error.status >= 500 => return Err(error),
                Err(error) => self.write_failure(&id, rev, &error)?,
            }
            self.stored += 1;
        }
        Ok(())
    }

    /// Local documents have no revision tree and are stored one by one.
    fn store_local(&mut self, draft: Draft) -> Result<()> {
        let id = draft.id.clone();
        match edit_one(&self.couch, &self.collection, &self.author, draft) {
            Ok(Written { rev, commit, .. }) => {
                self.commit = commit.max(self.commit);
                self.write_ok(&id, |out| out.extend_from_slice(rev.as_bytes()))
            }
            Err(error) if error.status >= 500 => Err(error),
            Err(error) => self.write_failure(&id, None, &error),
        }
    }

    fn write_ok(&mut self, id: &str, push_rev: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        if self.replicated == Some(true) {
            return Ok(());
        }
        let out = self.results.row();
        out.extend_from_slice(br#"{"ok":true,"id":"#);
        write_string(out, id);
        out.extend_from_slice(br#","rev":""#);
        push_rev(out);
        out.extend_from_slice(b"\"}");
        Ok(self.results.row_done()?)
    }

    fn write_error(&mut self, draft: &Draft, error: &Error) -> Result<()> {
        // For a replicated edit the error states the revision.
        let rev = match draft.base() {
            Some((_, Base::Graft { revision, .. })) => Some(revision.to_string()),
            _ => None,
        };
        self.write_failure(&draft.id, rev, error)
    }

    /// Refuses a document that CouchDB would store. The other documents are stored nevertheless.
    fn refuse(&mut self, text: &[u8], error: &Error) -> Result<()> {
        let (id, rev) = names_of(text)?;
        self.stored += 1;
        self.write_failure(&id, rev.filter(|_| self.replicated == Some(true)), error)
    }

    fn write_failure(&mut self, id: &str, rev: Option<String>, error: &Error) -> Result<()> {
        if error.is_refusal() {
            self.witness.refused(&self.couch, Some(id), &error.reason);
        }
        let out = self.results.row();
        out.extend_from_slice(br#"{"id":"#);
        write_string(out, id);
        if let Some(rev) = rev {
            out.extend_from_slice(br#","rev":"#);
            write_string(out, &rev);
        }
        out.extend_from_slice(br#","error":"#);
        write_string(out, &error.error);
        out.extend_from_slice(br#","reason":"#);
        write_string(out, &error.reason);
        out.push(b'}');
        Ok(self.results.row_done()?)
    }

    /// Builds the response, which waits until everything stored is durable.
    fn answer(self) -> Result<Response> {
        let is_aborted = self.aborts() && self.read > 0;
        let status = if is_aborted { StatusCode::EXPECTATION_FAILED } else { StatusCode::CREATED };
        Ok(self.results.into_response()?.with_status(status).after(self.commit))
    }
}

fn is_atomic(members: &DocBuf) -> bool {
    members.as_doc().get("all_or_nothing") == Some(Value::Boolean(true))
}

/// Extracts the id and the revision of a document that cannot be stored. Fails if the text is not JSON.
fn names_of(text: &[u8]) -> Result<(String, Option<String>)> {
    let members: HashMap<String, &RawValue> = serde_json::from_slice(text)
        .map_err(|error| Error::bad_request(format!("invalid UTF-8 JSON: {error}")))?;
    let member = |name: &str| -> Option<Json> { serde_json::from_str(members.get(name)?.get()).ok() };
    let string = |value: Json| value.as_str().map(str::to_owned);
    let newest = member("_revisions").and_then(|revisions| {
        let (start, ids) = (revisions.get("start")?.as_u64()?, revisions.get("ids")?.as_array()?);
        Some(format!("{start}-{}", ids.first()?.as_str()?))
    });
    let rev = newest.or_else(|| member("_rev").and_then(string));
    Ok((member("_id").and_then(string).unwrap_or_default(), rev))
}

/// Parses the `new_edits` member.
fn new_edits(members: &DocBuf) -> Result<Option<bool>> {
    match members.as_doc().get("new_edits") {
        None => Ok(None),
        Some(Value::Boolean(flag)) => Ok(Some(flag)),
        Some(_) => Err(Error::bad_request("`new_edits` parameter must be a boolean.")),
    }
}
