//! `$out`: writes a collection's new contents to a temporary collection, which then replaces the target in one step.

use crate::collection::{Collection, DesignGuard, Schema, WriteOptions, design_error};
use crate::error::{Error, Result};
use crate::exec::as_query_error;
use crate::index::{BuildProgress, IndexSpec};
use crate::namespace::Namespace;
use crate::store::{Entry, Store};
use diwan_query::code;
use diwan_query::pipeline::{Execution, Replacement};
use diwan_value::{Doc, DocBuf};
use std::sync::Arc;

/// How many bytes of documents are buffered before they are inserted.
const BATCH_BYTES: usize = 1 << 20;

/// The new contents of a collection, in a temporary collection until [`Replacement::commit`].
pub(super) struct NewContents {
    store: Arc<Store>,
    target: Namespace,
    temporary: Namespace,
    collection: Arc<Collection>,
    gathered: Vec<DocBuf>,
    gathered_bytes: usize,
    bypass_validation: bool,
    designs: Option<DesignGuard>,
    execution: Execution,
    committed: bool,
}

impl NewContents {
    pub fn begin(
        store: Arc<Store>,
        target: &Namespace,
        execution: &Execution,
        designs: Option<DesignGuard>,
    ) -> Result<NewContents> {
        Namespace::new(&target.database, &target.collection)?;
        let options = match store.entry(target) {
            None => DocBuf::new(),
            Some(Entry::Collection(collection)) => {
                let options = collection.schema().options.clone();
                if options.capped.is_some() {
                    return Err(Error::refused(
                        17152,
                        format!("namespace '{target}' is capped so it can't be used for $out"),
                    ));
                }
                options.to_doc().to_owned()
            }
            Some(Entry::View(_)) => {
                return Err(Error::refused(
                    code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                    format!("Namespace {target} is a view, not a collection"),
                ));
            }
        };
        let temporary = store.temporary(&target.database);
        let collection = store.create_collection(&temporary, options.as_doc())?;
        Ok(NewContents {
            store,
            target: target.clone(),
            temporary,
            collection,
            gathered: Vec::new(),
            gathered_bytes: 0,
            bypass_validation: execution.bypass_document_validation,
            designs,
            execution: execution.clone(),
            committed: false,
        })
    }

    fn flush(&mut self) -> Result<()> {
        let docs: Vec<Doc<'_>> = self.gathered.iter().map(DocBuf::as_doc).collect();
        // The documents are written to a temporary collection, but they are for the target.
        let target = self.target.clone();
        let designs = self.designs.clone().map(|guard| -> DesignGuard { Arc::new(move |_| guard(&target)) });
        let options = WriteOptions {
            bypass_validation: self.bypass_validation,
            designs: designs.as_ref(),
            ..WriteOptions::default()
        };
        let mut report = self.collection.insert(&docs, true, options)?;
        if let Some((_, error)) = report.errors.pop() {
            return Err(error);
        }
        self.gathered.clear();
        self.gathered_bytes = 0;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.flush()?;
        let specs = match self.store.collection(&self.target)? {
            Some(old) => specs(&old.schema()),
            None => Vec::new(),
        };
        let interrupt = &self.execution.context.interrupt;
        self.collection.create_indexes(specs.clone(), interrupt, &BuildProgress::default())?;
        self.store.shared.evaluate_several(|| self.take_place(&specs))?;
        self.committed = true;
        Ok(())
    }

    /// Puts the temporary collection in the place of the target, which has these indexes.
    fn take_place(&self, specs: &[IndexSpec]) -> Result<()> {
        let change = self.store.shared.change_schema();
        let old = self.store.collection(&self.target)?;
        let replaced = old.as_deref().map(Collection::stop_writes);
        if let Some(target) = &replaced {
            self.check_unchanged(target.schema(), specs)?;
        }
        if self.collection.schema().dropped {
            return Err(self.collection.dropped_error());
        }
        if let Some(old) = &old {
            if self.designs.as_ref().is_some_and(|guard| !guard(&self.target)) && old.has_designs()? {
                return Err(design_error(&self.target));
            }
            self.collection.inherit_settings(old)?;
        }
        self.store.move_entry(&change, &self.collection, &self.target, replaced)
    }

    /// Refuses to replace a collection whose options or indexes changed since the contents were prepared.
    fn check_unchanged(&self, target: &Schema, indexes: &[IndexSpec]) -> Result<()> {
        let what = if target.options.to_doc() != self.collection.schema().options.to_doc() {
            "collection options"
        } else if specs(target).iter().map(IndexSpec::to_doc).ne(indexes.iter().map(IndexSpec::to_doc)) {
            "indexes"
        } else {
            return Ok(());
        };
        let text = format!("{what} of target collection {} changed during processing.", self.target);
        Err(Error::refused(code::COMMAND_FAILED, text))
    }
}

/// The specifications of a collection's secondary indexes.
fn specs(schema: &Schema) -> Vec<IndexSpec> {
    schema.secondary().iter().map(|index| index.spec.clone()).collect()
}

impl Replacement for NewContents {
    fn insert(&mut self, doc: Doc<'_>) -> diwan_query::Result<()> {
        self.gathered.push(doc.to_owned());
        self.gathered_bytes += doc.as_bytes().len();
        if self.gathered_bytes >= BATCH_BYTES {
            self.flush().map_err(as_query_error)?;
        }
        Ok(())
    }

    fn commit(mut self: Box<Self>) -> diwan_query::Result<()> {
        self.finish().map_err(as_query_error)
    }
}

impl Drop for NewContents {
    fn drop(&mut self) {
        if !self.committed
            && let Err(error) = self.store.drop_collection(&self.temporary)
        {
            tracing::warn!(%error, collection = %self.temporary, "the temporary collection of an unfinished $out could not be dropped");
        }
    }
}
