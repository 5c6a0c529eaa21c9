//! `convertToCapped` and `cloneCollectionAsCapped`: copies a collection's documents into a capped collection. Secondary
//! indexes are not copied, as in MongoDB.
//!
//! A conversion copies the documents beside traffic, into a temporary collection. It then copies the documents that
//! changed meanwhile, which the change log names; the last of them while writers wait. Then the copy replaces the
//! collection.

use crate::collection::{Collection, Edit, ReadView, WriteOptions};
use crate::error::{Error, Result};
use crate::exec::Scan;
use crate::namespace::Namespace;
use crate::plan::{Hint, Planner};
use crate::store::Store;
use diwan_query::Interrupt;
use diwan_query::filter::Filter;
use diwan_query::pipeline::DocSource;
use diwan_value::{Doc, DocBuf, doc};
use std::sync::Arc;

/// How many documents, and how many bytes of them, are copied at a time.
const RUN: usize = 1000;
const RUN_BYTES: usize = 4 << 20;

/// How often changes are copied beside traffic, at most, before writers have to wait for the rest.
const ROUNDS: usize = 10;

/// With at most so many changes left, writers wait for them.
const FEW: u64 = 1000;

impl Store {
    /// Makes a collection capped, with a limit of `size` bytes.
    pub fn convert_to_capped(&self, name: &Namespace, size: i64, interrupt: &Interrupt) -> Result<()> {
        let source = self.source(name)?;
        // An index build would write to the collection that is replaced.
        let _building = source.building.lock();
        let temporary = self.temporary(&name.database);
        let target = self.create_capped(&temporary, size)?;
        let converted = self.convert(&source, &target, interrupt);
        if converted.is_err() {
            self.drop_collection(&temporary)?;
        }
        converted
    }

    /// Copies a collection's documents into a new capped collection.
    pub fn clone_as_capped(
        &self,
        name: &Namespace,
        target: &Namespace,
        size: i64,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let source = self.source(name)?;
        let copy = self.create_capped(target, size)?;
        let copied = copy_all(&source, &copy, interrupt);
        if copied.is_err() {
            self.drop_collection(target)?;
        }
        copied
    }

    fn source(&self, name: &Namespace) -> Result<Arc<Collection>> {
        let missing = || Error::namespace_not_found(format!("source collection {name} does not exist"));
        self.collection(name)?.ok_or_else(missing)
    }

    fn create_capped(&self, name: &Namespace, size: i64) -> Result<Arc<Collection>> {
        self.create_collection(name, doc! { "capped": true, "size": size }.as_doc())
    }

    fn convert(
        &self,
        source: &Arc<Collection>,
        target: &Arc<Collection>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        // The sequence is older than the view, and both are older than the copy. A change in between is copied twice;
        // none is missed.
        let mut since = source.last_sequence();
        let mut before = source.view();
        copy_all(source, target, interrupt)?;
        for _ in 0..ROUNDS {
            if source.last_sequence() - since <= FEW {
                break;
            }
            (since, before) = copy_changes(&before, since, target, interrupt)?;
        }
        self.shared.evaluate_several(|| self.take_over(source, target, (&before, since), interrupt))
    }

    /// Copies what has changed since `copied`, and puts the copy in the source's place.
    fn take_over(
        &self,
        source: &Arc<Collection>,
        target: &Arc<Collection>,
        (before, since): (&ReadView, u64),
        interrupt: &Interrupt,
    ) -> Result<()> {
        let change = self.shared.change_schema();
        if target.schema().dropped {
            return Err(target.dropped_error());
        }
        let stopped = source.stop_writes();
        if stopped.schema().dropped {
            return Err(source.dropped_error());
        }
        copy_changes(before, since, target, interrupt)?;
        target.inherit_settings(source)?;
        self.move_entry(&change, target, &source.namespace(), Some(stopped))
    }
}

/// Copies all documents: in the order of insertion from a capped collection, else in the order of their ids.
fn copy_all(source: &Arc<Collection>, target: &Collection, interrupt: &Interrupt) -> Result<()> {
    let view = source.view();
    let plan = Planner {
        view: &view,
        filter: Arc::new(Filter::AlwaysTrue),
        sort: None,
        collator: None,
        hint: Hint::None,
        tailable: false,
        needed: None,
    }
    .plan()?;
    let mut scan = Scan::new(view, &plan);
    loop {
        let mut run: Vec<DocBuf> = Vec::new();
        let mut bytes = 0;
        while run.len() < RUN && bytes < RUN_BYTES && scan.advance(interrupt)? {
            bytes += scan.current().as_bytes().len();
            run.push(scan.current().to_owned());
        }
        if run.is_empty() {
            return Ok(());
        }
        let docs: Vec<Doc<'_>> = run.iter().map(DocBuf::as_doc).collect();
        let report = target.insert(&docs, true, options())?;
        if let Some((_, error)) = report.errors.into_iter().next() {
            return Err(error);
        }
    }
}

/// Copies the documents that changed after sequence `since`. `before` is the view that was copied last. Returns the
/// view that is copied now, with its sequence.
fn copy_changes(
    before: &ReadView,
    mut since: u64,
    target: &Collection,
    interrupt: &Interrupt,
) -> Result<(u64, ReadView)> {
    let now = before.collection().view();
    loop {
        interrupt.check()?;
        let mut ids = Vec::new();
        now.changes(since, |change| {
            ids.push(change.id.to_vec());
            since = change.sequence;
            Ok(ids.len() < RUN)
        })?;
        if ids.is_empty() {
            return Ok((since, now));
        }
        target.edit(&ids, options(), |at, copy| {
            let id = &ids[at];
            Ok(match now.get(id)? {
                // A document that was copied before but is not in the copy has been trimmed.
                Some(_) if copy.is_none() && before.get(id)?.is_some() => Edit::Keep,
                Some(stored) => Edit::Put(stored.doc().to_owned()),
                None => Edit::Delete,
            })
        })?;
    }
}

fn options() -> WriteOptions<'static> {
    WriteOptions { bypass_validation: true, ..WriteOptions::default() }
}
