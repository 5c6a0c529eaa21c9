//! Edits: parses the document that a client sent, prepares the store's edit, and reports the outcome.

mod author;
mod user;
mod validate;

pub(crate) use author::{Author, user_context};
pub(crate) use validate::{Validation, Validators};

use crate::document::{Attaching, Incoming, Parts, Rev, check_new, id_error, local_name, push_rev};
use crate::error::{Error, Result};
use crate::http::Request;
use crate::mango;
use crate::replicator::owner;
use crate::server::Couch;
use crate::users;
use diwan_kv::CommitId;
use diwan_query::Interrupt;
use diwan_store::blob::{Attachment, StagedBlob, THIS_EDIT};
use diwan_store::{
    Base, Collection, Error as StoreError, RevisionEdit, RevisionOutcome, RevisionReport, id_key,
};
use diwan_value::json::{
    CouchDoc, Dialect, ErrorKind, JsonError, Limits, UNSTORABLE_REVISION, id_from_text, parse_couch,
};
use diwan_value::{DocBuf, ValueBuf};
use hyper::header::IF_MATCH;
use std::sync::Arc;

/// MongoDB's error codes for a document that an index cannot hold: two indexed fields are arrays, or a number in a
/// path is ambiguous between an array index and a field name.
const NO_INDEX_HOLDS: [i32; 2] = [171, 16746];
/// Ids up to this many bytes always fit into the store's keys.
const SHORT_ID: usize = 1000;

/// The revisions that a request names outside its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    /// The `rev` parameter.
    pub(crate) query: Option<Rev>,
    /// The `If-Match` header.
    pub(crate) etag: Option<Rev>,
}

impl Named {
    /// Reads them from a request.
    pub(crate) fn of(request: &Request) -> Result<Named> {
        let etag =
            request.header(IF_MATCH).map(|tag| Rev::parse(tag.trim().trim_matches('"'))).transpose()?;
        Ok(Named { query: request.query.get("rev").map(Rev::parse).transpose()?, etag })
    }

    /// Returns the named revision. If both are given they must agree.
    pub(crate) fn one(&self) -> Result<Option<Rev>> {
        match (&self.query, &self.etag) {
            (Some(query), Some(etag)) if query != etag => {
                Err(Error::bad_request("Document rev and etag have different values"))
            }
            (query, etag) => Ok(query.clone().or_else(|| etag.clone())),
        }
    }

    /// The same for a document whose body may name a revision too.
    fn with_body(&self, body: Option<&Rev>) -> Result<Option<Rev>> {
        let Some(body) = body else { return self.one() };
        if self.query.as_ref().is_some_and(|query| query != body) {
            let message = "Document rev from request body and query string have different values";
            return Err(Error::bad_request(message));
        }
        if self.etag.as_ref().is_some_and(|etag| etag != body) {
            return Err(Error::bad_request("Document rev and etag have different values"));
        }
        Ok(Some(body.clone()))
    }
}

/// The context in which a document is parsed.
pub(crate) struct Context<'a> {
    /// The server's state.
    pub(crate) couch: &'a Couch,
    /// The database.
    pub(crate) collection: &'a Arc<Collection>,
    /// The maximum size of a document in bytes.
    pub(crate) max_bytes: usize,
    /// `new_edits=false`: the edit was made on another server, and its revision is kept.
    pub(crate) replicated: bool,
}

/// A parsed document, ready to be stored.
pub(crate) struct Draft {
    /// The id as text.
    pub(crate) id: String,
    /// Whether the document is deleted.
    pub(crate) deleted: bool,
    target: Target,
    body: DocBuf,
    attaching: Attaching,
}

enum Target {
    /// An ordinary document. `base` is `None` if it names a revision that this store cannot contain.
    Document { id: ValueBuf, base: Option<Base> },
    /// A local document: its name, and the counter of the revision that the request names.
    Local { name: String, previous: Option<u64> },
}

impl Draft {
    /// Parses a document. `id` is the id in the path; without it the body's id is used, or else `new_id`.
    pub(crate) fn read(
        context: &Context<'_>,
        text: &[u8],
        id: Option<&str>,
        named: &Named,
        new_id: impl FnOnce() -> String,
        parts: Option<&mut Parts<'_>>,
    ) -> Result<Draft> {
        let limits = Limits { bytes: context.max_bytes, ..Limits::default() };
        let dialect = if context.replicated { Dialect::Replicated } else { Dialect::Plain };
        let mut doc = parse_couch(text, limits, dialect).map_err(|error| refused(error, text, id))?;
        let id = match (id, doc.id.take()) {
            // Like CouchDB, ignore the body's `_id` if the path has one.
            (Some(id), _) => id.to_owned(),
            (None, Some(own)) => own,
            (None, None) => new_id(),
        };
        if local_name(&id).is_some() {
            return Draft::local(id, doc, named);
        }
        let value = id_from_text(&id).map_err(id_error)?;
        if id.len() > SHORT_ID {
            id_key(value.as_value()).map_err(|error| Error::illegal_docid(error.to_string()).own_limit())?;
        }
        check_new(context.collection, &id)?;
        let base = base_of(&doc, named, context.replicated)?;
        let attaching = match doc.attachments {
            None => Attaching::default(),
            Some(text) => {
                let incoming = Incoming {
                    couch: context.couch,
                    collection: context.collection,
                    id: &id,
                    replicated: context.replicated,
                };
                let previous = || previous_attachments(context.collection, &value, base.as_ref());
                incoming.read(text, &previous, parts)?
            }
        };
        let target = Target::Document { id: value, base };
        Ok(Draft { id, deleted: doc.deleted, target, body: doc.body, attaching })
    }

    fn local(id: String, doc: CouchDoc<'_>, named: &Named) -> Result<Draft> {
        // Like CouchDB, drop attachments of local documents.
        let body_rev = doc.rev.as_deref().map(Rev::parse).transpose()?;
        let previous = named.with_body(body_rev.as_ref())?.map(|rev| local_count(&rev)).transpose()?;
        let name = local_name(&id).unwrap_or_default().to_owned();
        let target = Target::Local { name, previous };
        Ok(Draft { id, deleted: doc.deleted, target, body: doc.body, attaching: Attaching::default() })
    }

    /// Creates a draft that the server itself composes: a copy, or a document with changed attachments.
    pub(crate) fn new(
        id: String,
        base: Option<Base>,
        deleted: bool,
        body: DocBuf,
        attaching: Attaching,
    ) -> Result<Draft> {
        let value = id_from_text(&id).map_err(id_error)?;
        Ok(Draft { id, deleted, target: Target::Document { id: value, base }, body, attaching })
    }

    /// Creates a local document that the server itself composes.
    pub(crate) fn new_local(id: String, previous: Option<u64>, deleted: bool, body: DocBuf) -> Draft {
        let name = local_name(&id).unwrap_or_default().to_owned();
        Draft { id, deleted, target: Target::Local { name, previous }, body, attaching: Attaching::default() }
    }

    /// Adds an attachment whose bytes were just stored, replacing one of the same name.
    pub(crate) fn attach(&mut self, name: &str, content_type: &str, blob: StagedBlob) {
        self.attaching.list.retain(|attached| attached.name != name);
        self.attaching.add(name, content_type, THIS_EDIT, blob);
    }

    /// Whether it is a local document, which has no revision tree.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.target, Target::Local { .. })
    }

    /// The approximate memory in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.body.as_doc().as_bytes().len() + self.id.len() + 200
    }

    /// Whether it deletes the document.
    pub(crate) fn deleted(&self) -> bool {
        self.deleted
    }

    /// The size of the stored document in bytes, with attachments.
    pub(crate) fn size(&self) -> u64 {
        let attachments = self.attachments().iter().map(|attachment| attachment.encoded_length);
        self.body.as_doc().as_bytes().len() as u64 + attachments.sum::<u64>()
    }

    /// The fields of the document.
    pub(crate) fn body(&self) -> &DocBuf {
        &self.body
    }

    /// The attachments after the edit.
    pub(crate) fn attachments(&self) -> &[Attachment] {
        &self.attaching.list
    }

    /// Returns the id and the base of the edit; `None` for local documents and for edits that must conflict.
    pub(crate) fn base(&self) -> Option<(&ValueBuf, &Base)> {
        match &self.target {
            Target::Document { id, base: Some(base) } => Some((id, base)),
            _ => None,
        }
    }

    /// Returns the store's edit; `None` for local documents and for edits that must conflict.
    pub(crate) fn edit(&self) -> Option<RevisionEdit<'_>> {
        let (id, base) = self.base()?;
        Some(RevisionEdit {
            id: id.as_value(),
            base: base.clone(),
            deleted: self.deleted,
            doc: self.body.as_doc(),
            attachments: self.attaching.list.clone(),
        })
    }
}

/// A successful edit.
#[derive(Debug)]
pub(crate) struct Written {
    /// The document's id.
    pub(crate) id: String,
    /// The new revision as text.
    pub(crate) rev: String,
    /// The commit whose durability the client waits for.
    pub(crate) commit: Option<CommitId>,
}

impl Written {
    /// The JSON body of the answer.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.id.len() + 80);
        out.extend_from_slice(br#"{"ok":true,"id":"#);
        diwan_value::json::write_string(&mut out, &self.id);
        out.extend_from_slice(br#","rev":""#);
        out.extend_from_slice(self.rev.as_bytes());
        out.extend_from_slice(b"\"}");
        out
    }
}

/// Stores one document.
pub(crate) fn edit_one(
    couch: &Couch,
    collection: &Arc<Collection>,
    author: &Author,
    draft: Draft,
) -> Result<Written> {
    match users::is_users(&collection.namespace()) {
        true => user::edit(couch, collection, author, draft),
        false => store_one(couch, collection, author, draft),
    }
}

fn store_one(
    couch: &Couch,
    collection: &Arc<Collection>,
    author: &Author,
    mut draft: Draft,
) -> Result<Written> {
    if let Target::Local { name, previous } = &draft.target {
        let (count, commit) = write_local(collection, name, &draft, *previous)?;
        return Ok(Written { rev: format!("0-{count}"), id: draft.id, commit });
    }
    name_owner(couch, collection, author, &mut draft)?;
    Validation::of(couch, collection, author.clone())?.check(couch, collection, &draft)?;
    let edit = draft.edit().ok_or_else(Error::conflict)?;
    let mut report = edit_all(couch, collection, &[edit], author.waiting.as_ref())?;
    let outcome = report.outcomes.pop().unwrap_or(RevisionOutcome::Conflict);
    let revision = match outcome {
        RevisionOutcome::Written(revision) | RevisionOutcome::Known(revision) => revision,
        other => return Err(error_of(other)),
    };
    let mut rev = Vec::with_capacity(44);
    push_rev(&mut rev, &revision);
    let rev = String::from_utf8_lossy(&rev).into_owned();
    Ok(Written { id: draft.id, rev, commit: report.commit })
}

/// Names the author in a replication document that he writes.
pub(crate) fn name_owner(
    couch: &Couch,
    collection: &Arc<Collection>,
    author: &Author,
    draft: &mut Draft,
) -> Result<()> {
    if draft.is_local() {
        return Ok(());
    }
    let body = draft.body.as_doc();
    let stamped = owner::stamp(couch, collection, &author.caller, &draft.id, draft.deleted, body)?;
    if let Some(body) = stamped {
        draft.body = body;
    }
    Ok(())
}

/// Makes edits. If a Mango index cannot hold a document, the index is dropped and the edit repeated: CouchDB's
/// indexes can hold any document. `waiting` ends the wait for a transaction; without it the edits do not wait.
pub(crate) fn edit_all(
    couch: &Couch,
    collection: &Arc<Collection>,
    edits: &[RevisionEdit<'_>],
    waiting: Option<&Interrupt>,
) -> Result<RevisionReport> {
    let mut report = collection.edit_revisions(edits, true, waiting)?;
    let outcomes = report.outcomes.iter().enumerate();
    let refused: Vec<usize> =
        outcomes.filter(|(_, outcome)| no_index_holds(outcome)).map(|(at, _)| at).collect();
    if !refused.is_empty() {
        let again: Vec<_> = refused.iter().map(|at| edits[*at].clone()).collect();
        mango::drop_unfit_indexes(couch, collection, &again.iter().map(|edit| edit.doc).collect::<Vec<_>>())?;
        let second = collection.edit_revisions(&again, true, waiting)?;
        report.commit = second.commit.max(report.commit);
        for (at, outcome) in refused.into_iter().zip(second.outcomes) {
            report.outcomes[at] = outcome;
        }
    }
    Ok(report)
}

/// Whether an edit was refused because an index cannot hold the document.
fn no_index_holds(outcome: &RevisionOutcome) -> bool {
    matches!(outcome, RevisionOutcome::Refused(StoreError::Query(error)) if NO_INDEX_HOLDS.contains(&error.code))
}

/// Stores or deletes a local document; returns its new counter.
fn write_local(
    collection: &Collection,
    name: &str,
    draft: &Draft,
    previous: Option<u64>,
) -> Result<(u64, Option<CommitId>)> {
    if draft.deleted {
        let commit = collection.delete_local(name)?.ok_or_else(Error::missing)?;
        return Ok((0, Some(commit)));
    }
    let (count, commit) = collection.put_local(name, draft.body.as_doc(), previous)?;
    Ok((count, Some(commit)))
}

/// Converts the outcome of a failed edit to an error.
pub(crate) fn error_of(outcome: RevisionOutcome) -> Error {
    match outcome {
        RevisionOutcome::Refused(error) => error.into(),
        _ => Error::conflict(),
    }
}

/// Determines what an edit builds on; `None` if it names a revision that this store cannot contain.
fn base_of(doc: &CouchDoc<'_>, named: &Named, replicated: bool) -> Result<Option<Base>> {
    let (body, ancestors) = match &doc.revisions {
        Some(given) if !given.ids.is_empty() => {
            let generation = u32::try_from(given.start).ok().filter(|&start| start > 0);
            let generation = generation.ok_or_else(Error::bad_revision)?;
            let revision = diwan_store::Revision { generation, hash: given.ids[0] };
            (Some(Rev::Own(revision)), &given.ids[1..])
        }
        _ => (doc.rev.as_deref().map(Rev::parse).transpose()?, &[][..]),
    };
    let rev = named.with_body(body.as_ref())?;
    match rev {
        None if replicated => Err(Error::bad_request(
            "When `new_edits: false`, the document needs `_rev` or `_revisions` specified",
        )),
        None => Ok(Some(Base::New)),
        Some(Rev::Own(revision)) if replicated => {
            Ok(Some(Base::Graft { revision, ancestors: ancestors.to_vec() }))
        }
        Some(Rev::Own(revision)) => Ok(Some(Base::Leaf(revision))),
        Some(Rev::Foreign(_)) if replicated => Err(Error::bad_request(UNSTORABLE_REVISION).own_limit()),
        Some(Rev::Foreign(_)) => Ok(None),
    }
}

/// Returns the attachments of the newest stored ancestor of an edit.
fn previous_attachments(
    collection: &Arc<Collection>,
    id: &ValueBuf,
    base: Option<&Base>,
) -> Result<Option<Vec<Attachment>>> {
    let view = collection.view();
    let key = id_key(id.as_value())?;
    let find = |revision| -> Result<_> { Ok(view.revision(&key, revision)?.map(|found| found.attachments)) };
    match base {
        None | Some(Base::New) => Ok(None),
        Some(Base::Leaf(revision)) => find(*revision),
        Some(Base::Graft { revision, ancestors }) => {
            let mut next = *revision;
            let mut found = find(next)?;
            for hash in ancestors {
                if found.is_some() {
                    break;
                }
                next.generation = next.generation.saturating_sub(1);
                next.hash = *hash;
                found = find(next)?;
            }
            Ok(found)
        }
    }
}

/// Parses the counter in a local document's revision.
pub(crate) fn local_count(rev: &Rev) -> Result<u64> {
    let count = match rev {
        Rev::Foreign(text) => text.strip_prefix("0-").and_then(|count| count.parse().ok()),
        Rev::Own(_) => None,
    };
    count.ok_or_else(Error::bad_revision)
}

/// Converts a parse error.
fn refused(error: JsonError, text: &[u8], id: Option<&str>) -> Error {
    if error.kind != ErrorKind::Size {
        return error.into();
    }
    // CouchDB's reason for a document that is too large is the document's id.
    let id = id.map(str::to_owned).or_else(|| {
        let unlimited = Limits { bytes: usize::MAX, ..Limits::default() };
        parse_couch(text, unlimited, Dialect::Plain).ok()?.id
    });
    Error::document_too_large(id.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_store::Revision;

    fn rev(generation: u32) -> Rev {
        Rev::Own(Revision { generation, hash: [1; 16] })
    }

    #[test]
    fn conflicting_revisions_in_query_header_and_body_are_refused() {
        let named = |query, etag| Named { query, etag };
        assert_eq!(named(None, None).one().unwrap(), None);
        assert_eq!(named(Some(rev(1)), Some(rev(1))).one().unwrap(), Some(rev(1)));
        assert!(named(Some(rev(1)), Some(rev(2))).one().is_err());
        assert_eq!(named(None, Some(rev(1))).with_body(Some(&rev(1))).unwrap(), Some(rev(1)));
        let error = named(Some(rev(1)), None).with_body(Some(&rev(2))).unwrap_err();
        assert!(error.reason.contains("query string"));
        let error = named(None, Some(rev(1))).with_body(Some(&rev(2))).unwrap_err();
        assert_eq!(error.reason, "Document rev and etag have different values");
    }

    #[test]
    fn base_of_follows_the_named_revision_and_the_mode() {
        let base = |text: &str, replicated| {
            let doc = parse_couch(text.as_bytes(), Limits::default(), Dialect::Replicated).unwrap();
            base_of(&doc, &Named::default(), replicated)
        };
        let hash = "01".repeat(16);
        assert_eq!(base("{}", false).unwrap(), Some(Base::New));
        assert!(base("{}", true).unwrap_err().reason.starts_with("When `new_edits: false`"));
        let with_rev = format!(r#"{{"_rev":"2-{hash}"}}"#);
        let revision = Revision { generation: 2, hash: [1; 16] };
        assert_eq!(base(&with_rev, false).unwrap(), Some(Base::Leaf(revision)));
        assert_eq!(base(&with_rev, true).unwrap(), Some(Base::Graft { revision, ancestors: Vec::new() }));
        let (long, short) = (r#"{"_rev":"1-abcdefghijk"}"#, r#"{"_rev":"1-abc"}"#);
        assert_eq!(base(long, false).unwrap(), None);
        assert!(base(long, true).is_err());
        let revision = Revision::parse("1-abc").unwrap();
        assert_eq!(base(short, false).unwrap(), Some(Base::Leaf(revision)));
        assert_eq!(base(short, true).unwrap(), Some(Base::Graft { revision, ancestors: Vec::new() }));
        let path = format!(r#"{{"_revisions":{{"start":2,"ids":["{hash}","{hash}"]}}}}"#);
        let revision = Revision { generation: 2, hash: [1; 16] };
        assert_eq!(base(&path, true).unwrap(), Some(Base::Graft { revision, ancestors: vec![[1; 16]] }));
        assert!(base(&path.replace(":2", ":0"), true).is_err());
        assert_eq!(local_count(&Rev::parse("0-7").unwrap()).unwrap(), 7);
        assert!(local_count(&rev(1)).is_err());
    }
}
