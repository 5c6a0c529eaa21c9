//! `findAndModify`: updates or deletes one document and returns it.

use super::scope::Scope;
use super::target::Targets;
use super::update::Statement;
use crate::collection::{Collection, Edit, WriteOptions};
use crate::error::{Error, Result};
use crate::plan::Hint;
use crate::retry::RetryRecord;
use bumpalo::Bump;
use diwan_kv::CommitId;
use diwan_query::expr::EvalEnv;
use diwan_query::filter::FilterEnv;
use diwan_query::projection::{Projection, ProjectionEnv};
use diwan_query::sort::Sort;
use diwan_value::{Array, Doc, DocBuf, Value, ValueBuf, doc};
use std::cell::RefCell;
use std::sync::Arc;

/// The change to the document.
#[derive(Clone, Copy)]
pub enum Modify<'a> {
    /// Deletes the document.
    Remove,
    /// Updates the document, or inserts one if none matches and `upsert` is set.
    Update {
        /// The update: a document or a pipeline.
        update: Value<'a>,
        /// Whether a document is inserted if none matches.
        upsert: bool,
        /// Whether the changed document is returned instead of the old one.
        return_new: bool,
    },
}

/// A findAndModify.
#[derive(Clone)]
pub struct FindAndModify<'a> {
    /// The filter.
    pub filter: Doc<'a>,
    /// The order that decides which match is modified.
    pub sort: Option<Doc<'a>>,
    /// The projection of the returned document.
    pub projection: Option<Doc<'a>>,
    /// The change to the document.
    pub modify: Modify<'a>,
    /// The conditions of `$[identifier]`.
    pub array_filters: Option<Array<'a>>,
    /// The access to use.
    pub hint: Hint,
    /// Collation, variables, interrupt.
    pub scope: Scope<'a>,
    /// Skips the validator.
    pub bypass_validation: bool,
    /// The retry record of a retryable command. Its result is [`Modified::to_doc`].
    pub retry: Option<RetryRecord<'a>>,
}

/// The result of a findAndModify.
#[derive(Clone, Debug, Default)]
pub struct Modified {
    /// How many documents were updated, inserted or deleted: 0 or 1.
    pub count: u64,
    /// Whether an existing document was updated; `None` for a removal.
    pub updated_existing: Option<bool>,
    /// The `_id` of the inserted document.
    pub upserted: Option<ValueBuf>,
    /// The document to return.
    pub value: Option<DocBuf>,
    /// The commit.
    pub commit: Option<CommitId>,
}

impl Modified {
    /// The form of the result that a retry record stores.
    pub fn to_doc(&self) -> DocBuf {
        let mut out = doc! { "n": self.count as i64 }.into_builder();
        if let Some(existing) = self.updated_existing {
            out.append("updatedExisting", existing);
        }
        if let Some(id) = &self.upserted {
            out.append("upserted", id);
        }
        if let Some(value) = &self.value {
            out.append("value", value);
        }
        out.finish()
    }

    /// Parses the form that [`Modified::to_doc`] gives.
    pub fn from_doc(doc: Doc<'_>) -> Modified {
        Modified {
            count: doc.get("n").and_then(Value::as_i64_exact).unwrap_or(0) as u64,
            updated_existing: doc.get("updatedExisting").and_then(Value::as_bool),
            upserted: doc.get("upserted").map(ValueBuf::new),
            value: doc.get_doc("value").map(Doc::to_owned),
            commit: None,
        }
    }
}

impl FindAndModify<'_> {
    /// Refuses a command that cannot be parsed. This is all that it does if the collection does not exist and none is
    /// created.
    pub fn check(&self) -> Result<()> {
        let statement = self.parse(None)?;
        self.sort.map(Sort::parse).transpose()?;
        self.projection(&statement).map(drop)
    }

    fn projection(&self, statement: &Statement) -> Result<Option<Projection>> {
        let Some(projection) = self.projection.filter(|projection| !projection.is_empty()) else {
            return Ok(None);
        };
        let scope = statement.ready.parse_env();
        let filter = FilterEnv { context: statement.ready.context.clone(), scope: Some(&scope) };
        let env = ProjectionEnv { scope: &scope, filter: &filter, query: Some(self.filter) };
        Ok(Some(Projection::parse(projection, &env)?))
    }

    fn parse(&self, collection: Option<&Collection>) -> Result<Statement> {
        // A removal has no update; only the filter of its statement is used.
        let update = match self.modify {
            Modify::Remove => Value::Document(Doc::EMPTY),
            Modify::Update { update, .. } => update,
        };
        Statement::parse(collection, self.filter, update, false, self.array_filters, &self.scope)
    }
}

/// How often a findAndModify is retried after concurrent changes.
const ATTEMPTS: usize = 100;

impl Collection {
    /// Runs a findAndModify.
    pub fn find_and_modify(self: &Arc<Self>, request: &FindAndModify<'_>) -> Result<Modified> {
        let statement = request.parse(Some(self))?;
        let (upsert, return_new) = match request.modify {
            Modify::Remove => (false, false),
            Modify::Update { upsert, return_new, .. } => (upsert, return_new),
        };
        let projection = request.projection(&statement)?;
        let shown = |doc: Doc<'_>| -> Result<DocBuf> {
            let Some(projection) = &projection else { return Ok(doc.to_owned()) };
            let index = match projection.needs_array_index() {
                true => statement.filter.matches_with_position(doc)?.array_index,
                false => None,
            };
            let arena = Bump::new();
            let env = EvalEnv::new(&arena, doc, &statement.ready.context);
            Ok(projection.project(doc, index, &env)?)
        };
        let result = RefCell::new(None);
        let options = WriteOptions {
            bypass_validation: request.bypass_validation,
            replaces: statement.update.replaces(),
            retry: request.retry,
            retry_result: Some(&result),
            designs: statement.ready.designs.as_ref(),
            ..WriteOptions::default()
        };
        for _ in 0..ATTEMPTS {
            statement.ready.interrupt.check()?;
            let mut targets = Targets::find(
                self,
                request.filter,
                &statement.filter,
                request.sort,
                &request.hint,
                &statement.ready,
            )?;
            // A target may have changed since it was found. Then the next one is tried.
            while let Some(id) = targets.next(&statement.ready)? {
                let mut outcome: Option<Modified> = None;
                let id = [id];
                let written = self.shared.waiters.admit(Some(&statement.ready.interrupt), || {
                    outcome = None;
                    self.edit(&id, options, |_, record| {
                        let Some(record) = record else { return Ok(Edit::Keep) };
                        let mut modified = Modified { count: 1, ..Modified::default() };
                        let edit = if let Modify::Remove = request.modify {
                            if !statement.filter.matches(record.doc)? {
                                return Ok(Edit::Keep);
                            }
                            modified.value = Some(shown(record.doc)?);
                            Edit::Delete
                        } else {
                            let Some(changed) = statement.apply(record)? else { return Ok(Edit::Keep) };
                            modified.updated_existing = Some(true);
                            let after = changed.as_ref().map_or(record.doc, DocBuf::as_doc);
                            modified.value = Some(shown(if return_new { after } else { record.doc })?);
                            changed.map_or(Edit::Keep, Edit::Put)
                        };
                        // The retry record is part of the batch, so the result must be known before the commit.
                        *result.borrow_mut() = Some(modified.to_doc());
                        outcome = Some(modified);
                        Ok(edit)
                    })
                })?;
                if let Some(outcome) = outcome {
                    return Ok(Modified { commit: written.commit, ..outcome });
                }
            }
            if !upsert {
                let updated_existing = match request.modify {
                    Modify::Remove => None,
                    Modify::Update { .. } => Some(false),
                };
                return Ok(Modified { updated_existing, ..Modified::default() });
            }
            let doc = statement.upsert_document()?;
            let modified = Modified {
                count: 1,
                updated_existing: Some(false),
                upserted: doc.as_doc().get("_id").map(ValueBuf::new),
                value: return_new.then(|| shown(doc.as_doc())).transpose()?,
                commit: None,
            };
            *result.borrow_mut() = Some(modified.to_doc());
            let (filter, ready) = (&statement.filter, &statement.ready);
            let (collator, interrupt) = (ready.collator(), &ready.interrupt);
            let inserted = self.insert_new(doc, options, filter, collator, interrupt)?;
            if let Some(commit) = inserted {
                return Ok(Modified { commit: Some(commit), ..modified });
            }
        }
        Err(Error::refused(
            diwan_query::code::WRITE_CONFLICT,
            "findAndModify gave up after repeated concurrent changes of the document",
        ))
    }
}
