//! `update`: one document or all that match, with upsert.

use super::by_name::interrupted_by_drop;
use super::scope::{Ready, Scope};
use super::target::Targets;
use crate::collection::{Collection, Edit, WriteOptions, document_id};
use crate::error::{Error, Result};
use crate::exec::Scan;
use crate::plan::{Hint, Planner};
use crate::record::Record;
use crate::retry::RetryRecord;
use diwan_kv::CommitId;
use diwan_query::filter::{Filter, FilterEnv};
use diwan_query::sort::Sort;
use diwan_query::{Interrupt, update as query};

use diwan_value::{Array, Collator, Doc, DocBuf, Value, ValueBuf, doc};
use std::cell::RefCell;
use std::sync::Arc;

/// How many documents are updated in one batch: few, since other writers wait for the batch.
const BATCH: usize = 16;

/// An update statement.
#[derive(Clone, Default)]
pub struct Update<'a> {
    /// The filter.
    pub filter: Doc<'a>,
    /// The update: a document or a pipeline.
    pub update: Option<Value<'a>>,
    /// Whether all matches are updated, or only the first.
    pub multi: bool,
    /// Whether a document is inserted if none matches.
    pub upsert: bool,
    /// The conditions of `$[identifier]`.
    pub array_filters: Option<Array<'a>>,
    /// The order that decides which match is the first.
    pub sort: Option<Doc<'a>>,
    /// The access to use.
    pub hint: Hint,
    /// Collation, variables, interrupt.
    pub scope: Scope<'a>,
    /// Skips the validator.
    pub bypass_validation: bool,
    /// The retry record of a retryable update. Its result is [`Updated::to_doc`].
    pub retry: Option<RetryRecord<'a>>,
}

/// The result of an update.
#[derive(Clone, Debug, Default)]
pub struct Updated {
    /// How many documents matched.
    pub matched: u64,
    /// How many of them changed.
    pub modified: u64,
    /// The `_id` of the inserted document.
    pub upserted: Option<ValueBuf>,
    /// The last commit.
    pub commit: Option<CommitId>,
}

impl Updated {
    /// The form of the result that a retry record stores.
    pub fn to_doc(&self) -> DocBuf {
        let mut out = doc! { "n": self.matched as i64, "nModified": self.modified as i64 }.into_builder();
        if let Some(id) = &self.upserted {
            out.append("upserted", id);
        }
        out.finish()
    }

    /// Parses the form that [`Updated::to_doc`] gives.
    pub fn from_doc(doc: Doc<'_>) -> Updated {
        let number = |name| doc.get(name).and_then(Value::as_i64_exact).unwrap_or(0) as u64;
        Updated {
            matched: number("n"),
            modified: number("nModified"),
            upserted: doc.get("upserted").map(ValueBuf::new),
            commit: None,
        }
    }
}

impl Update<'_> {
    /// Refuses a statement that cannot be parsed. This is all that an update does if the collection does not exist and
    /// none is created.
    pub fn check(&self) -> Result<()> {
        self.sort.map(Sort::parse).transpose()?;
        self.parse(None).map(drop)
    }

    fn parse(&self, collection: Option<&Collection>) -> Result<Statement> {
        let update = self.update.unwrap_or(Value::Document(Doc::EMPTY));
        Statement::parse(collection, self.filter, update, self.multi, self.array_filters, &self.scope)
    }
}

/// A parsed update.
pub(super) struct Statement {
    pub filter: Arc<Filter>,
    pub update: query::Update,
    pub ready: Ready,
}

impl Statement {
    pub fn parse(
        collection: Option<&Collection>,
        filter: Doc<'_>,
        update: Value<'_>,
        multi: bool,
        array_filters: Option<Array<'_>>,
        scope: &Scope<'_>,
    ) -> Result<Statement> {
        let schema = collection.map(Collection::schema);
        let ready = scope.ready(schema.as_ref().and_then(|schema| schema.options.collator.as_ref()))?;
        let filter = ready.filter(filter)?;
        let parse_env = ready.parse_env();
        let filter_env = FilterEnv { context: ready.context.clone(), scope: Some(&parse_env) };
        let env = query::UpdateEnv { filter: &filter_env, array_filters, multi };
        let update = query::Update::parse(update, &env)?;
        Ok(Statement { filter, update, ready })
    }

    /// Applies the update to a record. Returns `None` if the record does not match any more.
    pub fn apply(&self, record: &Record<'_>) -> Result<Option<Option<DocBuf>>> {
        let index = if self.update.needs_array_index() {
            let found = self.filter.matches_with_position(record.doc)?;
            if !found.matched {
                return Ok(None);
            }
            found.array_index
        } else if !self.filter.matches(record.doc)? {
            return Ok(None);
        } else {
            None
        };
        Ok(Some(self.update.apply(record.doc, index, &self.ready.context)?))
    }

    /// The document that an upsert inserts, with its `_id`.
    pub fn upsert_document(&self) -> Result<DocBuf> {
        Ok(self.update.upsert_document(&self.filter, &self.ready.context)?)
    }
}

/// How often a statement is retried after concurrent changes.
const ATTEMPTS: usize = 100;

impl Collection {
    /// Runs an update statement.
    pub fn update(self: &Arc<Self>, request: &Update<'_>) -> Result<Updated> {
        let statement = request.parse(Some(self))?;
        if request.multi {
            self.update_many(request, &statement)
        } else {
            self.update_one(request, &statement)
        }
    }

    fn update_one(self: &Arc<Self>, request: &Update<'_>, statement: &Statement) -> Result<Updated> {
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
            while let Some(id) = targets.next(&statement.ready)? {
                let updated = self.update_these(&[id], request, statement)?;
                if updated.matched > 0 {
                    return Ok(updated);
                }
            }
            if !request.upsert {
                return Ok(Updated::default());
            }
            if let Some(updated) = self.upsert(request, statement)? {
                return Ok(updated);
            }
        }
        Err(Error::refused(
            diwan_query::code::WRITE_CONFLICT,
            "the document kept changing while it was updated",
        ))
    }

    fn update_many(self: &Arc<Self>, request: &Update<'_>, statement: &Statement) -> Result<Updated> {
        let mut total = Updated::default();
        let mut targets =
            Targets::find(self, request.filter, &statement.filter, None, &request.hint, &statement.ready)?;
        loop {
            let ids = targets.next_many(BATCH, &statement.ready);
            let ids = ids.map_err(|error| interrupted_by_drop(error, total.matched))?;
            if ids.is_empty() {
                break;
            }
            let mut add = |updated: Updated| {
                total.matched += updated.matched;
                total.modified += updated.modified;
                total.commit = updated.commit.or(total.commit);
            };
            match self.update_these(&ids, request, statement) {
                Ok(updated) => add(updated),
                // One document of the batch is refused: those before it are updated all the same. A transaction is
                // aborted as a whole.
                Err(Error::Query(_) | Error::DuplicateKey(_) | Error::DocumentValidation { .. })
                    if self.shared.inside.is_none() =>
                {
                    for id in ids {
                        let updated = self.update_these(&[id], request, statement);
                        add(updated.map_err(|error| interrupted_by_drop(error, 1))?);
                    }
                }
                Err(error) => return Err(interrupted_by_drop(error, total.matched)),
            }
        }
        if total.matched == 0 && request.upsert {
            for _ in 0..ATTEMPTS {
                if let Some(updated) = self.upsert(request, statement)? {
                    return Ok(updated);
                }
            }
        }
        Ok(total)
    }

    /// Updates the documents of these ids that still match.
    fn update_these(&self, ids: &[Vec<u8>], request: &Update<'_>, statement: &Statement) -> Result<Updated> {
        let interrupt = Some(&statement.ready.interrupt);
        self.shared.waiters.admit(interrupt, || self.try_update_these(ids, request, statement))
    }

    fn try_update_these(
        &self,
        ids: &[Vec<u8>],
        request: &Update<'_>,
        statement: &Statement,
    ) -> Result<Updated> {
        let mut updated = Updated::default();
        let result = doc! { "n": 1i64, "nModified": 1i64 };
        let retry = request.retry.map(|retry| RetryRecord { result: Some(result.as_doc()), ..retry });
        let options = WriteOptions {
            bypass_validation: request.bypass_validation,
            replaces: statement.update.replaces(),
            retry: retry.filter(|_| !request.multi),
            designs: statement.ready.designs.as_ref(),
            ..WriteOptions::default()
        };
        let written = self.edit(ids, options, |_, record| {
            let Some(record) = record else { return Ok(Edit::Keep) };
            match statement.apply(record)? {
                None => Ok(Edit::Keep),
                Some(None) => {
                    updated.matched += 1;
                    Ok(Edit::Keep)
                }
                Some(Some(doc)) => {
                    updated.matched += 1;
                    Ok(Edit::Put(doc))
                }
            }
        })?;
        updated.modified = written.replaced as u64;
        updated.commit = written.commit;
        Ok(updated)
    }

    /// Inserts the upsert's document; `None` if somebody inserted one that matches meanwhile.
    fn upsert(self: &Arc<Self>, request: &Update<'_>, statement: &Statement) -> Result<Option<Updated>> {
        let doc = statement.upsert_document()?;
        let id = ValueBuf::new(doc.as_doc().get("_id").unwrap_or(Value::Null));
        let updated = Updated { matched: 1, modified: 0, upserted: Some(id), commit: None };
        let result = RefCell::new(Some(updated.to_doc()));
        let (filter, ready) = (&statement.filter, &statement.ready);
        let (collator, interrupt) = (ready.collator(), &ready.interrupt);
        let options = WriteOptions {
            bypass_validation: request.bypass_validation,
            retry: request.retry,
            retry_result: Some(&result),
            designs: ready.designs.as_ref(),
            ..WriteOptions::default()
        };
        let inserted = self.insert_new(doc, options, filter, collator, interrupt)?;
        Ok(inserted.map(|commit| Updated { commit: Some(commit), ..updated }))
    }

    /// Inserts a document unless one of its unique keys is taken by a document that matches `filter`.
    pub(super) fn insert_new(
        self: &Arc<Self>,
        doc: DocBuf,
        options: WriteOptions<'_>,
        filter: &Arc<Filter>,
        collator: Option<Arc<Collator>>,
        interrupt: &Interrupt,
    ) -> Result<Option<CommitId>> {
        let key = document_id(doc.as_doc())?;
        let mut taken = false;
        let written = self.shared.waiters.admit(Some(interrupt), || {
            self.edit(std::slice::from_ref(&key), options, |_, record| {
                taken = record.is_some();
                Ok(if taken { Edit::Keep } else { Edit::Put(doc.clone()) })
            })
        });
        match written {
            Ok(written) if !taken => Ok(written.commit),
            Ok(_) => match self.get(&key)? {
                Some(stored) if !filter.matches(stored.doc())? => {
                    Err(self.duplicate_id(doc.as_doc().get("_id").unwrap_or(Value::Null)))
                }
                _ => Ok(None),
            },
            // MongoDB begins an upsert anew only where its filter names the unique key; a filter that matches now
            // says the same.
            Err(Error::DuplicateKey(error)) => {
                let matches_now = filter_names(filter, error.key_pattern.as_doc());
                if matches_now && self.any_match(filter, collator, interrupt)? {
                    Ok(None)
                } else {
                    Err(Error::DuplicateKey(error))
                }
            }
            Err(error) => Err(error),
        }
    }

    fn any_match(
        self: &Arc<Self>,
        filter: &Arc<Filter>,
        collator: Option<Arc<Collator>>,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        let view = self.view();
        let plan = Planner {
            view: &view,
            filter: filter.clone(),
            sort: None,
            collator,
            hint: Hint::None,
            tailable: false,
            needed: None,
        }
        .plan()?;
        Scan::new(view, &plan).step(interrupt)
    }

    pub(crate) fn duplicate_id(&self, id: Value<'_>) -> Error {
        Error::DuplicateKey(Box::new(crate::error::DuplicateKey {
            namespace: self.namespace().to_string(),
            index: "_id_".to_owned(),
            key_pattern: doc! { "_id": 1 },
            key_value: doc! { "_id": id },
        }))
    }
}

/// Whether a filter binds every field of a key pattern by equality.
fn filter_names(filter: &Filter, pattern: Doc<'_>) -> bool {
    let Ok(fields) = diwan_query::filter::equality_fields(filter) else { return false };
    pattern.iter().all(|element| fields.iter().any(|(path, _)| path.as_str() == element.key_str()))
}
