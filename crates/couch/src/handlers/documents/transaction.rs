//! `POST /_transaction`: stores documents in several databases, all of them or none.
//!
//! The body is `{"docs": [{"db": "…", "doc": {…}}, …]}`. Each document names the revision that it follows, as in a `PUT`. If
//! one of them conflicts, nothing is stored, and the answer lists those that conflict.

use crate::auth::rights::{self, Needs};
use crate::edit::{Author, Context, Draft, Named, Validation, name_owner};
use crate::error::{Error, Result};
use crate::http::{Request, Response};
use crate::mango;
use crate::server::Couch;
use crate::users;
use diwan_access::Action;
use diwan_kv::CommitId;
use diwan_query::code;
use diwan_store::{Claimant, Collection, Error as StoreError, RevisionEdit, RevisionOutcome};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a transaction is tried again while others have written its documents and are not done.
const PATIENCE: Duration = Duration::from_secs(10);

const WRITE: &[Action] = &[Action::Insert, Action::Update];

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    docs: Vec<Write<'a>>,
}

#[derive(Deserialize)]
struct Write<'a> {
    db: String,
    #[serde(borrow)]
    doc: &'a RawValue,
}

/// The documents for one database, with their places in the request.
struct Part {
    name: String,
    collection: Arc<Collection>,
    drafts: Vec<(usize, Draft)>,
}

/// What became of one attempt.
enum Attempt {
    /// The outcome of each document, in the request's order.
    Committed(Vec<Json>, Option<CommitId>),
    /// The documents that conflict.
    Conflicts(Vec<Json>),
    /// Somebody else has written one of the documents meanwhile: the transaction, if it is still open.
    Overtaken(Option<Arc<Claimant>>),
}

pub(crate) fn post(request: &mut Request) -> Result<Response> {
    request.require_json()?;
    let bytes = request.read_body()?;
    let body: Body<'_> = serde_json::from_slice(&bytes).map_err(|error| {
        Error::bad_request(format!(
            "The body must be {{\"docs\": [{{\"db\": name, \"doc\": document}}]}}: {error}"
        ))
    })?;
    let parts = read_parts(request, &body)?;
    let end = Instant::now() + PATIENCE;
    request.interrupt.set_deadline(Some(end));
    loop {
        match attempt(&request.couch, &parts, body.docs.len())? {
            Attempt::Committed(rows, commit) => {
                for part in &parts {
                    if part.drafts.iter().any(|(_, draft)| draft.id.starts_with("_design/")) {
                        mango::follow_soon(&request.couch, &part.collection);
                    }
                }
                return Ok(Response::json(201, &json!({ "ok": true, "docs": rows })).after(commit));
            }
            Attempt::Conflicts(rows) => {
                let reason = "Document update conflict. Nothing was stored.";
                return Ok(Response::json(
                    409,
                    &json!({ "error": "conflict", "reason": reason, "docs": rows }),
                ));
            }
            Attempt::Overtaken(claimant) => {
                let waited =
                    claimant.map(|claimant| request.couch.store.wait_for(&claimant, &request.interrupt));
                // Too many requests wait already, or this one has waited for too long.
                if waited.is_some_and(|waited| waited.is_err()) || Instant::now() >= end {
                    return Err(Error::unavailable(
                        "An open transaction has written one of the documents; try again.",
                    ));
                }
            }
        }
    }
}

/// Parses, checks and validates the documents.
fn read_parts(request: &Request, body: &Body<'_>) -> Result<Vec<Part>> {
    let couch = &request.couch;
    let author = Author::of(request);
    let mut parts: Vec<(Part, Validation)> = Vec::new();
    for (at, write) in body.docs.iter().enumerate() {
        let place = match parts.iter().position(|(part, _)| part.name == write.db) {
            Some(place) => place,
            None => {
                rights::check(couch, &request.caller, Needs::Documents(WRITE), &write.db)?;
                let collection = couch.database(&write.db)?;
                if users::is_users(&collection.namespace()) {
                    return Err(Error::bad_request("A transaction cannot change users."));
                }
                let validation = Validation::of(couch, &collection, author.clone())?;
                parts.push((Part { name: write.db.clone(), collection, drafts: Vec::new() }, validation));
                parts.len() - 1
            }
        };
        let (part, validation) = &mut parts[place];
        let context = Context {
            couch,
            collection: &part.collection,
            max_bytes: couch.max_document_bytes(),
            replicated: false,
        };
        let text = write.doc.get().as_bytes();
        let mut draft = Draft::read(&context, text, None, &Named::default(), || couch.new_id(), None)?;
        if draft.is_local() {
            return Err(Error::bad_request("A transaction cannot change local documents."));
        }
        name_owner(couch, &part.collection, &author, &mut draft)?;
        validation.check(couch, &part.collection, &draft)?;
        part.drafts.push((at, draft));
    }
    let parts: Vec<Part> = parts.into_iter().map(|(part, _)| part).collect();
    // From the first request on that names a database, its history is kept. The snapshot must show that already.
    parts.iter().try_for_each(|part| part.collection.keep_history())?;
    Ok(parts)
}

fn attempt(couch: &Couch, parts: &[Part], count: usize) -> Result<Attempt> {
    let transaction = couch.store.begin_transaction();
    let mut rows = vec![Json::Null; count];
    let mut conflicts = Vec::new();
    for part in parts {
        let inside = transaction.store().collection(&part.collection.namespace())?;
        let inside = inside.ok_or_else(Error::no_database)?;
        let mut edits: Vec<RevisionEdit<'_>> = Vec::with_capacity(part.drafts.len());
        let mut places = Vec::with_capacity(part.drafts.len());
        for (at, draft) in &part.drafts {
            match draft.edit() {
                Some(edit) => {
                    edits.push(edit);
                    places.push((*at, &draft.id));
                }
                // It names a revision that this store cannot contain.
                None => conflicts.push(conflict(&part.name, &draft.id)),
            }
        }
        let report = match inside.edit_revisions(&edits, true, None) {
            Ok(report) => report,
            Err(error) => return overtaken(error),
        };
        for ((at, id), outcome) in places.into_iter().zip(report.outcomes) {
            match outcome {
                RevisionOutcome::Written(revision) | RevisionOutcome::Known(revision) => {
                    rows[at] = json!({ "ok": true, "db": part.name, "id": id, "rev": revision.to_string() });
                }
                RevisionOutcome::Conflict => conflicts.push(conflict(&part.name, id)),
                RevisionOutcome::Refused(error) => return Err(error.into()),
            }
        }
    }
    if !conflicts.is_empty() {
        return Ok(Attempt::Conflicts(conflicts));
    }
    match transaction.commit(None) {
        Ok(commit) => Ok(Attempt::Committed(rows, commit)),
        Err(error) => overtaken(error),
    }
}

fn conflict(database: &str, id: &str) -> Json {
    json!({ "db": database, "id": id, "error": "conflict", "reason": "Document update conflict." })
}

/// What an error of the store makes of an attempt.
fn overtaken(error: StoreError) -> Result<Attempt> {
    match error {
        StoreError::Claimed(claimant) => Ok(Attempt::Overtaken(Some(claimant))),
        StoreError::Query(error) if error.code == code::WRITE_CONFLICT => Ok(Attempt::Overtaken(None)),
        error => Err(error.into()),
    }
}
