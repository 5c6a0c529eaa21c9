//! Documents of `_replicator` databases, each of which defines a replication.
//!
//! One thread per database follows its changes, from whichever client, and starts, replaces and cancels jobs. When a
//! replication completes, or a document is invalid, the state is written into the document. A document with such a
//! state is ignored until the state is removed.

use super::Replicator;
use super::changes;
use super::context::UserContext;
use super::failure::Failure;
use super::job::{DocumentKey, Job, iso};
use super::members::Members;
use super::owner::Owner;
use super::peer::{Call, Payload};
use super::protocol::{Database, escape};
use super::spec::{Defaults, Spec};
use crate::error::{Error, Result};
use crate::names;
use diwan_store::Entry;
use hyper::Method;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The suffix of replicator databases other than [`MAIN`].
const SUFFIX: &str = "/_replicator";
/// The default replicator database.
const MAIN: &str = "_replicator";
/// How often the server looks for new replicator databases.
const SEARCH: Duration = Duration::from_secs(5);
/// How often writing a state is retried after conflicts.
const ATTEMPTS: usize = 20;
/// The heartbeat interval of the feed.
const BEAT: Duration = Duration::from_secs(10);

/// Whether a database contains replication documents.
pub(crate) fn is_replicator(name: &str) -> bool {
    name == MAIN || name.ends_with(SUFFIX)
}

/// Refuses an invalid replication document, as CouchDB does for writes over HTTP.
pub(crate) fn check_document(id: &str, text: &[u8]) -> Result<()> {
    let body: Map<String, Value> = serde_json::from_slice(text).unwrap_or_default();
    // A failed document may be invalid: it must be possible to write the failure into it.
    if id.starts_with("_design/") || body.get("_replication_state") == Some(&json!("failed")) {
        return Ok(());
    }
    let refuse = |reason: String| Err(Error::forbidden(reason));
    for field in ["source", "target"] {
        let endpoint = body.get(field);
        if !matches!(endpoint, Some(Value::String(_) | Value::Object(_))) {
            return refuse(format!("The `{field}' property must exist and be either a string or an object."));
        }
        let Some(Value::Object(endpoint)) = endpoint else { continue };
        if endpoint.get("url").and_then(Value::as_str).is_none_or(str::is_empty) {
            return refuse(format!(
                "The url property must exist in the `{field}' field and must be a non-empty string."
            ));
        }
        for part in ["auth", "headers"] {
            if endpoint.get(part).is_some_and(|value| !value.is_object()) {
                return refuse(format!("`{field}.{part}' must be a non-null object."));
            }
        }
    }
    UserContext::parse(&body).map_err(Error::forbidden)?;
    let wrong = |name: &str, fits: fn(&Value) -> bool| body.get(name).is_some_and(|value| !fits(value));
    for name in ["create_target", "continuous"] {
        if wrong(name, Value::is_boolean) {
            return refuse(format!("The `{name}' field must be a boolean."));
        }
    }
    if wrong("doc_ids", Value::is_array) {
        return refuse("The `doc_ids' field must be an array of strings.".into());
    }
    if wrong("selector", Value::is_object) {
        return refuse("The `selector' field must be an object.".into());
    }
    if wrong("filter", |value| value.as_str().is_some_and(|text| !text.is_empty())) {
        return refuse("The `filter' field must be a non-empty string.".into());
    }
    let has = |name: &str| body.contains_key(name);
    if has("doc_ids") && has("selector") {
        return refuse("`doc_ids' field is incompatible with `selector'.".into());
    }
    if (has("doc_ids") || has("selector")) && has("filter") {
        return refuse("`filter' field is incompatible with `selector' and `doc_ids'.".into());
    }
    if wrong("query_params", Value::is_object) {
        return refuse("The `query_params' field must be an object.".into());
    }
    // The parser checks the remaining members.
    match Spec::parse(&body, &Defaults::default()) {
        Ok(_) => Ok(()),
        Err(failure) => refuse(failure.reason),
    }
}

/// The replication documents of all replicator databases.
#[derive(Default)]
pub(super) struct Documents {
    known: Mutex<BTreeMap<DocumentKey, Known>>,
    /// The databases that a thread follows.
    watched: Mutex<HashMap<String, ()>>,
    searched: Mutex<Option<Instant>>,
}

/// A replication document.
struct Known {
    seen: Timestamp,
    source: Option<String>,
    target: Option<String>,
    state: DocumentState,
}

enum DocumentState {
    /// The document has a job.
    Active(Arc<Job>),
    /// The document has none: its replication is over, or it has not been processed yet.
    Over { state: String, time: Option<String>, info: Value, id: Option<String> },
}

impl Documents {
    /// Describes the documents of a database, sorted by id.
    pub(super) fn describe(&self, database: &str) -> Vec<Value> {
        let known = self.known.lock();
        known
            .iter()
            .filter(|(key, _)| key.database == database)
            .map(|(key, known)| known.describe(key))
            .collect()
    }

    /// Describes one document.
    fn describe_one(&self, key: &DocumentKey) -> Option<Value> {
        self.known.lock().get(key).map(|known| known.describe(key))
    }
}

impl Known {
    /// Reads the state in a document; the flag tells whether its replication is over.
    fn read(body: &Map<String, Value>, spec: Option<&Spec>) -> (Known, bool) {
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        let noted = text("_replication_state");
        let (info, is_over) = match noted.as_deref() {
            Some("completed") => (body.get("_replication_stats").cloned().unwrap_or_default(), true),
            Some("failed") => (json!({ "error": text("_replication_state_reason") }), true),
            _ => (Value::Null, false),
        };
        let state = DocumentState::Over {
            state: noted.filter(|_| is_over).unwrap_or_else(|| "initializing".to_owned()),
            time: text("_replication_state_time"),
            info,
            id: text("_replication_id"),
        };
        let shown = |end: fn(&Spec) -> String| spec.map(end);
        let source = shown(|spec| spec.source.shown());
        let target = shown(|spec| spec.target.shown());
        (Known { seen: Timestamp::now(), source, target, state }, is_over)
    }

    fn describe(&self, key: &DocumentKey) -> Value {
        let (id, state, info, errors, updated) = match &self.state {
            DocumentState::Active(job) => (
                Some(job.id.clone()),
                job.state_name().to_owned(),
                job.info(),
                job.error_count(),
                iso(job.updated()),
            ),
            DocumentState::Over { state, time, info, id } => {
                (id.clone(), state.clone(), info.clone(), 0, time.clone().unwrap_or_else(|| iso(self.seen)))
            }
        };
        json!({
            "id": id,
            "database": key.database,
            "doc_id": key.id,
            "source": self.source,
            "target": self.target,
            "source_proxy": null,
            "target_proxy": null,
            "state": state,
            "info": info,
            "error_count": errors,
            "start_time": iso(self.seen),
            "last_updated": updated,
            "node": crate::NODE,
        })
    }
}

impl Replicator {
    /// Starts a thread for each replicator database that has none.
    pub(super) fn watch_documents(self: &Arc<Self>) {
        let mut names = vec![MAIN.to_owned()];
        {
            let mut searched = self.documents.searched.lock();
            if searched.is_none_or(|at| at.elapsed() >= SEARCH) {
                *searched = Some(Instant::now());
                let Some(couch) = self.couch.upgrade() else { return };
                let found = couch.store.collection_names(|name| name.collection.ends_with(MAIN));
                let found = found.iter().filter_map(names::database);
                names.extend(found.filter(|name| name.ends_with(SUFFIX)));
            }
        }
        for name in names {
            if self.instance(&name).is_none()
                || self.documents.watched.lock().insert(name.clone(), ()).is_some()
            {
                continue;
            }
            let replicator = self.clone();
            let database = name.clone();
            let thread = std::thread::Builder::new().name("replicator documents".to_owned());
            let spawned = thread.spawn(move || {
                replicator.follow(&database);
                replicator.drop_documents(&database);
                replicator.documents.watched.lock().remove(&database);
            });
            if let Err(error) = spawned {
                tracing::error!(%error, "the thread for a `_replicator` database cannot be started");
                self.documents.watched.lock().remove(&name);
            }
        }
    }

    /// Returns the UUID of a database, if it exists and its replications run in this process.
    fn instance(&self, name: &str) -> Option<[u8; 16]> {
        let couch = self.couch.upgrade()?;
        if !couch.store.leads() {
            return None;
        }
        match couch.store.entry(&names::namespace(name)?) {
            Some(Entry::Collection(collection)) => Some(collection.uuid()),
            _ => None,
        }
    }

    /// Follows a database until it is dropped or the server closes.
    fn follow(self: &Arc<Self>, database: &str) {
        let Some(instance) = self.instance(database) else { return };
        let Ok(peer) = self.local(database, self.closing.clone(), None) else { return };
        let source = Database::new(Box::new(peer), 0, self.closing.clone());
        let mut since = json!(0);
        while self.instance(database) == Some(instance) && !self.closing.is_stopped() {
            let result = changes::follow_documents(&source, &mut since, BEAT, &mut |row| {
                // A dropped and recreated database is a new one with a thread of its own.
                let gone = self.instance(database) != Some(instance);
                if let (false, Some((id, document))) = (gone, row) {
                    self.document_changed(DocumentKey { database: database.to_owned(), id }, document);
                }
                !gone
            });
            if let Err(failure) = result
                && !self.closing.is_stopped()
            {
                tracing::debug!(%failure, database, "the feed of replication documents ended");
            }
            if source.pause().is_err() {
                return;
            }
        }
    }

    /// Cancels the jobs of a dropped database's documents.
    fn drop_documents(&self, database: &str) {
        if self.closing.is_stopped() {
            return;
        }
        let keys: Vec<DocumentKey> =
            self.documents.known.lock().keys().filter(|key| key.database == database).cloned().collect();
        for key in keys {
            self.document_gone(&key);
        }
    }

    fn document_gone(&self, key: &DocumentKey) {
        let known = self.documents.known.lock().remove(key);
        if let Some(Known { state: DocumentState::Active(job), .. }) = known {
            job.remove();
            self.forget(&job);
        }
    }

    /// Processes a changed document; `None` if it was deleted.
    fn document_changed(self: &Arc<Self>, key: DocumentKey, document: Option<Map<String, Value>>) {
        if key.id.starts_with("_design/") {
            return;
        }
        let Some(body) = document else { return self.document_gone(&key) };
        let parsed = Spec::parse(&body, &self.defaults());
        let (mut known, is_over) = Known::read(&body, parsed.as_ref().ok());
        if is_over {
            self.document_gone(&key);
            self.documents.known.lock().insert(key, known);
            return;
        }
        let spec = match parsed {
            Ok(spec) => spec,
            Err(failure) => {
                self.document_gone(&key);
                return self.note_failed(&key, &failure.reason);
            }
        };
        let owner = Owner::Name(body.get("owner").and_then(Value::as_str).map(str::to_owned));
        // An edit that leaves the replication as it is does not restart the job.
        if let Some(Known { state: DocumentState::Active(job), .. }) = self.documents.known.lock().get(&key)
            && job.spec == spec
            && job.owner.is_same(&owner)
        {
            return;
        }
        self.document_gone(&key);
        let Ok(server) = self.server() else { return };
        let job = Job::new(spec.base_id(&server), spec, Some(key.clone()), owner);
        let Ok(taken) = self.add(job.clone()) else { return };
        if !Arc::ptr_eq(&taken, &job) {
            let by = match &taken.document {
                Some(other) => format!("triggered by document `{}` from db `{}`", other.id, other.database),
                None => "triggered by a request".to_owned(),
            };
            let reason =
                format!("Replication `{}` specified by document `{}` already started, {by}", job.id, key.id);
            return self.note_failed(&key, &reason);
        }
        known.state = DocumentState::Active(job);
        self.documents.known.lock().insert(key, known);
    }

    /// Describes one document.
    pub(crate) fn document(&self, database: &str, id: &str) -> Option<Value> {
        let key = DocumentKey { database: database.to_owned(), id: id.to_owned() };
        self.documents.describe_one(&key).or_else(|| self.describe_new(&key))
    }

    /// Describes a document that has not been processed yet.
    fn describe_new(&self, key: &DocumentKey) -> Option<Value> {
        if key.id.starts_with('_') {
            return None;
        }
        let answer = self.database(key).ok()?.send(Call::get(escape(&key.id))).ok()?;
        if !answer.is_success() {
            return None;
        }
        let body = serde_json::from_slice(&answer.bytes().ok()?).ok()?;
        Some(Known::read(&body, Spec::parse(&body, &self.defaults()).ok().as_ref()).0.describe(key))
    }

    /// Opens the database of a document.
    fn database(&self, key: &DocumentKey) -> std::result::Result<Database, Failure> {
        let stop = self.closing.clone();
        Ok(Database::new(Box::new(self.local(&key.database, stop.clone(), None)?), 0, stop))
    }

    /// Writes into a document that its replication completed.
    pub(super) fn note_completed(&self, key: &DocumentKey, job: &Job) {
        let stats = Value::Object(job.final_stats());
        self.note_state(key, |members| {
            members.set("_replication_state", &json!("completed"));
            members.set("_replication_state_time", &json!(iso(Timestamp::now())));
            members.remove("_replication_state_reason");
            members.set("_replication_stats", &stats);
        });
    }

    /// Writes into a document that it is invalid.
    fn note_failed(&self, key: &DocumentKey, reason: &str) {
        tracing::warn!(
            database = key.database,
            document = key.id,
            reason,
            "a replication document is invalid"
        );
        self.note_state(key, |members| {
            members.set("_replication_state", &json!("failed"));
            members.set("_replication_state_time", &json!(iso(Timestamp::now())));
            members.set("_replication_state_reason", &json!(reason));
            members.remove("_replication_stats");
        });
    }

    fn note_state(&self, key: &DocumentKey, change: impl Fn(&mut Members)) {
        let result = self.try_note(key, change);
        if let Err(failure) = result {
            tracing::warn!(database = key.database, document = key.id, %failure, "the state of a replication cannot be written to its document");
        }
    }

    fn try_note(&self, key: &DocumentKey, change: impl Fn(&mut Members)) -> std::result::Result<(), Failure> {
        let database = self.database(key)?;
        for _ in 0..ATTEMPTS {
            let answer = database.send(Call::get(escape(&key.id)))?;
            if answer.status == 404 {
                return Ok(());
            }
            let text = answer.bytes().map_err(|error| database.broken(&error))?;
            let mut members =
                Members::parse(&text).map_err(|error| Failure::new("invalid_json", error.to_string()))?;
            change(&mut members);
            let payload = Payload::Json(members.to_text().into());
            let answer = database.send(Call { payload, ..Call::new(Method::PUT, escape(&key.id)) })?;
            if answer.is_success() {
                return Ok(());
            }
            if answer.status != 409 {
                let (error, reason) = answer.describe();
                return Err(Failure::new(error, reason));
            }
        }
        Err(Failure::new("conflict", "the document changes too often"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_document_refuses_what_couchdb_refuses() {
        let check = |body: Value| check_document("d", body.to_string().as_bytes());
        assert!(check(json!({ "source": "a", "target": { "url": "http://h/b" }, "more": 1 })).is_ok());
        for (body, reason) in [
            (json!({}), "The `source' property must exist and be either a string or an object."),
            (
                json!({ "source": "a", "target": {} }),
                "The url property must exist in the `target' field and must be a non-empty string.",
            ),
            (
                json!({ "source": "a", "target": "b", "continuous": 1 }),
                "The `continuous' field must be a boolean.",
            ),
            (
                json!({ "source": "a", "target": "b", "filter": "" }),
                "The `filter' field must be a non-empty string.",
            ),
            (
                json!({ "source": "a", "target": "b", "doc_ids": [], "selector": {} }),
                "`doc_ids' field is incompatible with `selector'.",
            ),
        ] {
            let error = check(body).unwrap_err();
            assert_eq!((error.status, error.reason.as_ref()), (403, reason));
        }
        assert!(check(json!({ "_replication_state": "failed" })).is_ok());
        assert!(check_document("_design/d", b"{}").is_ok());
        assert!(
            is_replicator("_replicator") && is_replicator("a/_replicator") && !is_replicator("replicator")
        );
    }
}
