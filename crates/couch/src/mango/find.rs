//! Answers queries.

use super::bookmark;
use super::follow::{follow, keep_following};
use super::indexes::{self, Listed, required_fields};
use super::request::{FindRequest, selector_of};
use super::selector::{conflicts_of, in_partition, no_design_documents, write_found};
use crate::document::{self, Show};
use crate::error::{Error, Result};
use crate::http::{Flow, Request, Response, RowWriter};
use crate::partition;
use crate::server::Couch;
use diwan_query::filter::Filter;
use diwan_query::mango;
use diwan_query::{Examined, Interrupt};
use diwan_store::ops::{Query, Running};
use diwan_store::plan::Hint;
use diwan_store::slow::SlowOperation;
use diwan_store::{Collection, RevisedDocument, StoredDocument, id_key};
use diwan_value::{ArrayBuilder, Doc, DocBuf, Value, doc};
use serde_json::json;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The answer contains a warning if more than this many documents were read for each one returned.
const MANY_READ: u64 = 10;

/// A query for the store, and the index that `use_index` selected.
pub(super) struct Chosen {
    pub(crate) query: Query,
    /// The index that the client asked for, if it is used.
    pub(crate) index: Option<Listed>,
    /// Why the requested index is not used.
    warning: Option<String>,
}

/// Chooses the index and builds the store's query.
pub(super) fn choose(
    request: &FindRequest,
    couch: &Couch,
    collection: &Arc<Collection>,
    temporary: Option<std::path::PathBuf>,
) -> Result<Chosen> {
    let mut filters = vec![request.selector.stored(), no_design_documents()?];
    let selector = selector_of(request.body.as_doc())?.as_doc().unwrap_or_default();
    if is_empty_list(selector) {
        filters.push(Filter::AlwaysFalse);
    }
    // In CouchDB only an index can sort, and it contains only documents that have its fields. So exclude all others.
    let mut required = required_fields(selector);
    if let Some(sort) = &request.sort {
        let mut all = ArrayBuilder::new();
        for part in sort.parts().iter().filter(|part| part.path.as_str() != "_id") {
            required.insert(part.path.as_str().to_owned());
            all.push(exists(part.path.as_str()));
        }
        if !all.is_empty() {
            let selector = doc! { "$and": all };
            filters.push(mango::Selector::parse(selector.as_doc())?.stored());
        }
    }
    if let Some(partition) = &request.partition {
        filters.push(in_partition(partition)?);
    }
    let mut index = None;
    let mut warning = None;
    if let Some((ddoc, name)) = &request.use_index {
        let mut called = indexes::called(couch, collection, ddoc, name.as_deref());
        // Only a request for a missing index waits for the synchronization with design documents.
        if called.is_empty() {
            follow(couch, collection)?;
            called = indexes::called(couch, collection, ddoc, name.as_deref());
        }
        let failure = called.iter().find_map(|listed| listed.failure.clone());
        index = called.into_iter().find(|listed| listed.is_usable(&required));
        if index.is_none() {
            let because =
                failure.map_or_else(String::new, |failure| format!(" It cannot be built: {failure}"));
            let named = match name {
                Some(name) => format!("_design/{ddoc}, {name}"),
                None => format!("_design/{ddoc}"),
            };
            if !request.allow_fallback {
                let text = format!(
                    "{named} specified by `use_index` could not be found or it is not suitable.{because}"
                );
                return Err(Error::new(400, "invalid_index", text));
            }
            let why = match name {
                Some(_) => "is not a valid index for this query.",
                None => "does not contain a valid index for this query.",
            };
            warning = Some(format!("{named} was not used because it {why}{because}"));
        }
    }
    let mut hint = Hint::None;
    if let Some(index) = &index {
        // A partial index may only be used by a query that implies its selector, so the selector is added.
        hint = Hint::Name(index.index.clone());
        filters.extend(index.definition.partial_filter()?);
    }
    // Conditions on metadata are checked after the store's query, so the number of documents to read is unknown.
    let most = match request.selector.names_metadata() {
        true => None,
        false => usize::try_from(request.limit.saturating_add(request.skip)).ok(),
    };
    let query = Query {
        filter: Arc::new(Filter::and(filters)),
        sort: request.sort.clone(),
        hint,
        after: request.bookmark.clone(),
        most,
        interrupt: Interrupt::new(),
        temporary,
    };
    Ok(Chosen { query, index, warning })
}

/// Whether a selector is a lone empty `$and`, `$or` or `$nor`. As in CouchDB it matches nothing, although such a list
/// beside other conditions has no effect.
fn is_empty_list(selector: Doc<'_>) -> bool {
    let mut members = selector.iter();
    match (members.next(), members.next()) {
        (Some(only), None) if matches!(only.key_str(), "$and" | "$or" | "$nor") => {
            matches!(only.value(), Value::Array(list) if list.is_empty())
        }
        _ => false,
    }
}

/// Builds the selector of documents that have the field.
fn exists(path: &str) -> DocBuf {
    // Names that begin with an underscore are prefixed with a dollar over HTTP.
    let name = if diwan_value::json::is_metadata_member(path.split('.').next().unwrap_or_default()) {
        format!("${path}")
    } else {
        path.to_owned()
    };
    let mut out = diwan_value::DocBuilder::new();
    out.append(&name, doc! { "$exists": true });
    out.finish()
}

/// Answers a query; `within` is the partition in the path.
pub(crate) fn find(request: &mut Request, within: Option<String>) -> Result<Response> {
    let collection = request.database()?;
    let begun = Instant::now();
    let body = super::read_body(request)?;
    let asked = FindRequest::read(body, within)?;
    if asked.partition.is_some() && !partition::is_partitioned(&collection) {
        return Err(partition::not_supported());
    }
    keep_following(&request.couch, &collection);
    let temporary = request.couch.config.temporary.clone();
    let chosen = choose(&asked, &request.couch, &collection, temporary)?;
    // Plan and sort before the head is sent, so that failures become error responses.
    let running = collection.query(&chosen.query)?;
    let (skip, results, last) = (asked.skip, 0, None);
    let (couch, busy) = (request.couch.clone(), begun.elapsed());
    let mut answer = Answer { asked, chosen, running, collection, begun, busy, couch, skip, results, last };
    answer.running.suspend();
    Ok(Response::rows(move |out| {
        let resumed = Instant::now();
        let flow = answer.write(out)?;
        answer.busy += resumed.elapsed();
        if matches!(flow, Flow::Done) {
            answer.note_if_slow();
        }
        Ok(flow)
    }))
}

struct Answer {
    asked: FindRequest,
    chosen: Chosen,
    running: Running,
    collection: Arc<Collection>,
    begun: Instant,
    /// How long the server has worked on it. The client may read slowly.
    busy: Duration,
    couch: Arc<Couch>,
    /// How many documents are still to be skipped.
    skip: u64,
    results: u64,
    /// The bookmark of the last row.
    last: Option<String>,
}

impl Answer {
    /// Writes rows until the buffer is full.
    fn write(&mut self, out: &mut RowWriter) -> Result<Flow> {
        if self.results == 0 {
            out.buffer().extend_from_slice(b"{\"docs\":[");
        }
        let mut last = None;
        while self.results < self.asked.limit && self.running.advance()? {
            let Some(stored) = self.running.current() else { continue };
            if !self.matches(stored)? {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            out.buffer().extend_from_slice(if self.results == 0 { b"\r\n" } else { b",\r\n" });
            self.write_document(out, stored)?;
            self.results += 1;
            last = Some(self.running.position());
            if out.is_full() {
                self.last = last.map(|position| bookmark::write(&position));
                // Release the store's snapshot while the client reads.
                self.running.suspend();
                return Ok(Flow::More);
            }
        }
        let last = last.map(|position| bookmark::write(&position)).or_else(|| self.last.take());
        self.write_end(out, last)?;
        Ok(Flow::Done)
    }

    /// Checks the conditions that the store could not check.
    fn matches(&self, stored: &StoredDocument) -> Result<bool> {
        if !self.asked.selector.names_metadata() {
            return Ok(true);
        }
        self.asked.selector.matches_document(&revised(stored)?, || match self.asked.conflicts {
            true => {
                let id = id_key(stored.record().doc.get("_id").unwrap_or(Value::Null))?;
                conflicts_of(&self.collection.view(), &id)
            }
            false => Ok(Vec::new()),
        })
    }

    fn write_document(&self, out: &mut RowWriter, stored: &StoredDocument) -> Result<()> {
        let record = stored.record();
        let wants_tree = self.asked.conflicts && record.has_branches();
        match &self.asked.fields {
            None if !wants_tree => document::write_record(out.buffer(), &record),
            Some(fields) if fields.are_stored() => {
                fields.write_stored(out.buffer(), record.doc);
                Ok(())
            }
            fields => {
                let id = id_key(record.doc.get("_id").unwrap_or(Value::Null))?;
                let show = Show { conflicts: self.asked.conflicts, ..Show::default() };
                let view = self.collection.view();
                write_found(out, &view, &revised(stored)?, &id, fields.as_ref(), &show)
            }
        }
    }

    fn write_end(&self, out: &mut RowWriter, bookmark: Option<String>) -> io::Result<()> {
        // After the last page the bookmark stays the same; sending it again finds nothing new.
        let bookmark = bookmark
            .or_else(|| self.asked.bookmark_text.clone())
            .unwrap_or_else(|| bookmark::NONE.to_owned());
        write!(out, "\r\n],\r\n\"bookmark\": {}", json!(bookmark))?;
        if self.asked.execution_stats {
            let stats = self.running.stats();
            let stats = json!({
                "total_keys_examined": stats.keys_examined,
                "total_docs_examined": stats.docs_examined,
                "total_quorum_docs_examined": 0,
                "results_returned": self.results,
                "execution_time_ms": self.begun.elapsed().as_secs_f64() * 1000.0
            });
            write!(out, ",\r\n\"execution_stats\": {stats}")?;
        }
        let warnings = self.warnings();
        if !warnings.is_empty() {
            write!(out, ",\r\n\"warning\": {}", json!(warnings.join("\n")))?;
        }
        out.write_all(b"}\r\n")
    }

    fn note_if_slow(&self) {
        let slow = self.couch.store.slow();
        if slow.includes(self.busy) {
            let stats = self.running.stats();
            slow.record(&SlowOperation {
                namespace: &self.collection.namespace(),
                operation: "_find",
                query: self.asked.body.as_doc(),
                took: self.busy,
                read: Examined { keys: stats.keys_examined, documents: stats.docs_examined },
                returned: self.results,
                plan: self.chosen.query.interrupt.tally().plan_summary(),
            });
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.chosen.warning.iter().cloned().collect();
        if self.running.plan().reads_all() {
            warnings.push("No matching index found, create an index to optimize query time.".to_owned());
        }
        let read = self.running.stats().docs_examined;
        if read / self.results.max(1) > MANY_READ {
            warnings.push(
                "The number of documents examined is high in proportion to the number of results returned. Consider \
                 adding a more specific index to improve this."
                    .to_owned(),
            );
        }
        warnings
    }
}

/// Converts a stored document.
fn revised(stored: &StoredDocument) -> Result<RevisedDocument> {
    let record = stored.record();
    Ok(RevisedDocument {
        revision: record.revision(),
        deleted: false,
        sequence: record.sequence,
        doc: record.doc.to_owned(),
        attachments: record.attachments()?,
        has_branches: record.has_branches(),
    })
}
