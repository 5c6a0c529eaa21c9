//! Checks stored data: records, index entries, changes, revisions and catalog documents against each other.
//!
//! A check reads one snapshot, so it runs beside traffic. It trusts only the catalog documents in the snapshot. It uses
//! bounded memory: it scans the documents once, together with their revisions, looks up the keys that each document
//! must have elsewhere (its change, its index entries, its capped position), and counts them. All these keys differ. So
//! if as many keys are confirmed as exist, there are no others. Only otherwise does the check search for keys without a
//! document.

mod blobs;
mod catalog;
mod collection;
mod lineage;
mod orphans;
mod report;
mod revisions;

pub use report::{
    CheckReport, CollectionReport, Finding, FindingKind, Findings, IndexReport, Part, Progress,
};

use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::incoming;
use crate::keys::Key;
use crate::store::Store;
use catalog::Catalog;
use collection::CollectionCheck;
use diwan_kv::{self as kv, Space};
use diwan_query::Interrupt;

/// Checks the whole of a store that is in use, as of now.
pub fn check(store: &Store, report: &mut dyn FnMut(Progress<'_>)) -> Result<CheckReport> {
    check_engine(store.engine().as_ref(), report)
}

/// Checks what an engine holds as of now. Writes nothing, and also reads stores that do not open, except one that a move
/// has not filled.
pub fn check_engine(engine: &dyn kv::Engine, report: &mut dyn FnMut(Progress<'_>)) -> Result<CheckReport> {
    let snapshot = engine.snapshot();
    let snapshot = snapshot.as_ref();
    incoming::refuse(snapshot.get(Space::Meta, &Key::Incoming.bytes())?)?;
    let mut watch = Watch { interrupt: &Interrupt::new(), report };
    let mut whole = CheckReport::default();
    let catalog = Catalog::read(snapshot, &mut watch, &mut whole)?;
    for (namespace, entry) in &catalog.collections {
        let check = CollectionCheck::new(snapshot, namespace, entry, &catalog, &mut watch);
        whole.add(check.run()?);
    }
    orphans::find(snapshot, &catalog, &mut watch, &mut whole.findings)?;
    Ok(whole)
}

/// Checks one collection as of now.
pub fn validate_collection(
    collection: &Collection,
    interrupt: &Interrupt,
    report: &mut dyn FnMut(Progress<'_>),
) -> Result<CollectionReport> {
    let snapshot = collection.shared.engine.snapshot();
    let snapshot = snapshot.as_ref();
    let mut watch = Watch { interrupt, report };
    let catalog = Catalog::read(snapshot, &mut watch, &mut CheckReport::default())?;
    let found = catalog.collections.iter().find(|(_, entry)| entry.id == collection.id);
    let (namespace, entry) = found.ok_or_else(|| collection.dropped_error())?;
    CollectionCheck::new(snapshot, namespace, entry, &catalog, &mut watch).run()
}

/// The receiver of the check's progress, and the interrupt that may end it.
struct Watch<'a> {
    interrupt: &'a Interrupt,
    report: &'a mut dyn FnMut(Progress<'_>),
}

impl Watch<'_> {
    /// Checks the interrupt and reports the progress, once for some number of keys.
    fn step(&mut self, namespace: &str, part: Part<'_>, done: u64, total: Option<u64>) -> Result<()> {
        const EVERY: u64 = 1024;
        if done.is_multiple_of(EVERY) {
            self.interrupt.check()?;
            (self.report)(Progress { namespace, part, done, total });
        }
        Ok(())
    }
}

/// The description of an error that means damage. Any other error ends the check.
fn damage(error: Error) -> Result<String> {
    match error {
        Error::Engine(kv::Error::Damaged(_)) | Error::Damaged(_) => Ok(error.to_string()),
        error => Err(error),
    }
}
