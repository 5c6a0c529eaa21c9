//! Writes by name. They create the collection if they need it, and look it up again if it was dropped between the
//! lookup and the write.

use super::{Delete, Deleted, FindAndModify, Modified, Modify, Update, Updated};
use crate::collection::{Collection, InsertReport, WriteOptions};
use crate::error::{Error, Result};
use crate::index::{BuildProgress, IndexSpec};
use crate::namespace::Namespace;
use crate::store::Store;
use diwan_query::Interrupt;
use diwan_value::{Collation, Doc};
use std::sync::Arc;

impl Store {
    /// Inserts documents like [`Collection::insert`]. If the collection is dropped meanwhile, the documents that were
    /// inserted before are lost with it, and the others are inserted into a new collection.
    pub fn insert(
        &self,
        namespace: &Namespace,
        docs: &[Doc<'_>],
        ordered: bool,
        options: WriteOptions<'_>,
    ) -> Result<InsertReport> {
        let mut report = InsertReport::default();
        self.on_collection(namespace, |collection| {
            collection.insert_rest(docs, ordered, options, &mut report)
        })?;
        Ok(report)
    }

    /// Runs an update statement.
    pub fn update(&self, namespace: &Namespace, request: &Update<'_>) -> Result<Updated> {
        let missing = || {
            // A statement that is refused must not create a collection.
            request.check()?;
            Ok((!request.upsert).then(Updated::default))
        };
        self.on_collection_or(namespace, missing, |collection| collection.update(request))
    }

    /// Runs a delete statement.
    pub fn delete(&self, namespace: &Namespace, request: &Delete<'_>) -> Result<Deleted> {
        let missing = || request.check().map(|()| Some(Deleted::default()));
        self.on_collection_or(namespace, missing, |collection| collection.delete(request))
    }

    /// Runs a findAndModify.
    pub fn find_and_modify(&self, namespace: &Namespace, request: &FindAndModify<'_>) -> Result<Modified> {
        let missing = || {
            request.check()?;
            Ok(match request.modify {
                Modify::Update { upsert: true, .. } => None,
                Modify::Update { .. } => {
                    Some(Modified { updated_existing: Some(false), ..Modified::default() })
                }
                Modify::Remove => Some(Modified::default()),
            })
        };
        self.on_collection_or(namespace, missing, |collection| collection.find_and_modify(request))
    }

    /// Builds the indexes that do not exist yet. Creates the collection if it does not exist. `specs` parses the
    /// specifications with the collection's collation. Returns how many indexes there were before and are now, and
    /// whether the collection was created.
    pub fn create_indexes<E: From<Error>>(
        &self,
        namespace: &Namespace,
        specs: impl Fn(Option<&Collation>) -> std::result::Result<Vec<IndexSpec>, E>,
        interrupt: &Interrupt,
        progress: &BuildProgress,
    ) -> std::result::Result<(usize, usize, bool), E> {
        loop {
            let existing = self.collection(namespace)?;
            let created = existing.is_none();
            let collation = existing.as_ref().and_then(|found| found.schema().options.collation.clone());
            let parsed = specs(collation.as_ref())?;
            let collection = match existing {
                Some(collection) => collection,
                None => self.collection_or_create(namespace)?,
            };
            match collection.create_indexes(parsed, interrupt, progress) {
                Err(Error::CollectionDropped(_)) => {}
                outcome => return Ok(outcome.map(|(before, after)| (before, after, created))?),
            }
        }
    }

    /// Writes to the collection of that name. Creates it if it does not exist.
    pub(super) fn on_collection<T>(
        &self,
        namespace: &Namespace,
        write: impl FnMut(&Arc<Collection>) -> Result<T>,
    ) -> Result<T> {
        self.on_collection_or(namespace, || Ok(None), write)
    }

    /// Writes to the collection of that name. If it does not exist, `missing` returns the outcome, or `None` to create
    /// the collection.
    fn on_collection_or<T>(
        &self,
        namespace: &Namespace,
        missing: impl Fn() -> Result<Option<T>>,
        mut write: impl FnMut(&Arc<Collection>) -> Result<T>,
    ) -> Result<T> {
        loop {
            let collection = match self.collection(namespace)? {
                Some(collection) => collection,
                None => match missing()? {
                    Some(outcome) => return Ok(outcome),
                    None => self.collection_or_create(namespace)?,
                },
            };
            match write(&collection) {
                Err(Error::CollectionDropped(_)) => {}
                outcome => return outcome,
            }
        }
    }
}

/// The error of a multi-document write whose collection was dropped. If `done` documents were written already, the
/// write must not start again in a new collection.
pub(super) fn interrupted_by_drop(error: Error, done: u64) -> Error {
    match error {
        Error::CollectionDropped(_) if done > 0 => {
            Error::refused(diwan_query::code::QUERY_PLAN_KILLED, error.to_string())
        }
        error => error,
    }
}
