//! Checks one collection: its documents together with their revisions, then all other keys under its numbers.

use super::catalog::Catalog;
use super::report::{CollectionReport, Finding, FindingKind, IndexReport, Part};
use super::revisions::{Group, Groups};
use super::{Watch, damage};
use crate::blob::BlobId;
use crate::catalog::CatalogEntry;
use crate::change::{Change, ChangeKind};
use crate::collection::{RawEntry, document_id, natural_key, split_unique_value, unique_value};
use crate::error::Result;
use crate::index::Index;
use crate::keys::{self, Key, read_number};
use crate::record::{Record, Tombstone};
use crate::revision::Revision;
use diwan_kv::{Bytes, Direction, KeyRange, Snapshot, Space};
use diwan_value::Doc;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How many lookups are made at a time.
const LOOKUPS: usize = 1024;

/// A check of one collection under way.
pub(super) struct CollectionCheck<'a, 'w> {
    pub(super) snapshot: &'a dyn Snapshot,
    pub(super) namespace: &'a str,
    pub(super) entry: &'a CatalogEntry,
    /// Whether every superseded body must have a key in the order of time.
    pub(super) due_bodies_complete: bool,
    prefix: Vec<u8>,
    pub(super) watch: &'a mut Watch<'w>,
    indexes: Vec<CheckedIndex>,
    pub(super) lookups: Vec<Lookup>,
    /// How many changes are known to belong to a document or a tombstone.
    confirmed_changes: u64,
    /// How many places in the capped order are known to belong to a document.
    confirmed_positions: u64,
    /// How many references to blobs are known to belong to a body.
    pub(super) confirmed_references: u64,
    pub(super) report: CollectionReport,
}

/// A secondary index that is complete.
struct CheckedIndex {
    index: Arc<Index>,
    /// Its place in the report.
    at: usize,
    /// How many entries are known to belong to a document.
    confirmed: u64,
    /// The multikey bits of its documents.
    multikey: u64,
}

/// Something that a document or a tombstone must have elsewhere.
pub(super) struct Lookup {
    pub what: What,
    /// The key bytes of the document's `_id`.
    pub id: Arc<[u8]>,
    pub key: Vec<u8>,
}

pub(super) enum What {
    /// A change of one of these kinds.
    Change { sequence: u64, kinds: &'static [ChangeKind] },
    /// An entry of the index, with this value.
    Entry { at: usize, value: Vec<u8> },
    /// A place in the capped order.
    Position(u64),
    /// A reference to a blob.
    Reference(BlobId),
    /// A blob.
    Blob(BlobId),
    /// The key in the order of time of the body of this revision, which was superseded.
    DueBody(Revision),
}

impl What {
    fn space(&self) -> Space {
        match self {
            What::Change { .. } => Space::Log,
            What::Entry { .. } | What::Position(_) => Space::Indexes,
            What::Reference(_) | What::Blob(_) => Space::Meta,
            What::DueBody(_) => Space::Revisions,
        }
    }
}

impl<'a, 'w> CollectionCheck<'a, 'w> {
    pub fn new(
        snapshot: &'a dyn Snapshot,
        namespace: &'a str,
        entry: &'a CatalogEntry,
        catalog: &Catalog,
        watch: &'a mut Watch<'w>,
    ) -> CollectionCheck<'a, 'w> {
        let mut report = CollectionReport { namespace: namespace.to_owned(), ..CollectionReport::default() };
        let mut indexes = Vec::new();
        for (at, index) in entry.indexes.iter().enumerate() {
            let checked = index.is_ready() && !catalog.dropped.contains(&index.id.0);
            let name = index.spec.name.clone();
            report.indexes.push(IndexReport { name, entries: 0, checked, findings: 0 });
            if checked && !index.spec.is_id_index() {
                indexes.push(CheckedIndex { index: index.clone(), at, confirmed: 0, multikey: 0 });
            }
        }
        CollectionCheck {
            snapshot,
            namespace,
            entry,
            due_bodies_complete: catalog.due_bodies_complete,
            prefix: keys::collection_prefix(entry.id),
            watch,
            indexes,
            lookups: Vec::new(),
            confirmed_changes: 0,
            confirmed_positions: 0,
            confirmed_references: 0,
            report,
        }
    }

    pub fn run(mut self) -> Result<CollectionReport> {
        self.part(Self::documents)?;
        self.part(Self::changes)?;
        for at in 0..self.indexes.len() {
            self.part(|check| check.index(at))?;
        }
        self.part(Self::insertion_order)?;
        self.part(Self::references)?;
        self.part(Self::blobs)?;
        if let Some(id_index) = self.report.indexes.first_mut() {
            id_index.entries = self.report.documents;
        }
        Ok(self.report)
    }

    /// Checks one part. An unreadable key ends the part and becomes a finding.
    fn part(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if let Err(error) = part(self) {
            self.find(FindingKind::Unreadable, None, damage(error)?);
        }
        Ok(())
    }

    pub(super) fn find(&mut self, kind: FindingKind, at: Option<usize>, detail: String) {
        let index = at.and_then(|at| self.report.indexes.get_mut(at)).map(|index| {
            index.findings += 1;
            index.name.clone()
        });
        self.report.findings.add(Finding { kind, namespace: Some(self.namespace.to_owned()), index, detail });
    }

    /// Checks the documents together with their revisions.
    fn documents(&mut self) -> Result<()> {
        let mut groups = Groups::new(self.snapshot, &self.prefix);
        let total = self.newest_change()?.map(|change| change.1);
        let range = KeyRange::prefix(&self.prefix);
        for pair in self.snapshot.scan(Space::Records, range, Direction::Forward) {
            self.watch.step(self.namespace, Part::Documents, self.report.documents, total)?;
            let (key, value) = pair?;
            let id = &key[self.prefix.len()..];
            // Revisions of documents with smaller ids belong to deleted documents.
            let mut own = None;
            while let Some(group) = groups.next_up_to(Some(id))? {
                if group.id == id {
                    own = Some(group);
                } else {
                    self.deleted(&group);
                }
            }
            self.report.documents += 1;
            self.document(id, &value, own.as_ref());
            if self.lookups.len() >= LOOKUPS {
                self.look_up()?;
            }
        }
        let mut groups_read = 0;
        while let Some(group) = groups.next_up_to(None)? {
            self.watch.step(self.namespace, Part::Documents, groups_read, None)?;
            groups_read += 1;
            self.deleted(&group);
            if self.lookups.len() >= LOOKUPS {
                self.look_up()?;
            }
        }
        self.look_up()?;
        for stray in groups.strays {
            self.find(FindingKind::Revision, None, format!("no revision has such a key: {stray}"));
        }
        for at in 0..self.indexes.len() {
            let CheckedIndex { index, at, multikey, .. } = &self.indexes[at];
            let (unknown, at) = (multikey & !index.multikey() & crate::index::ARRAYS, *at);
            if unknown != 0 {
                let detail = format!("the catalog lacks multikey bits of its documents ({unknown:#b})");
                self.find(FindingKind::Multikey, Some(at), detail);
            }
        }
        Ok(())
    }

    /// Checks a document's record, and collects the keys that it must have elsewhere.
    fn document(&mut self, id: &[u8], value: &[u8], revisions: Option<&Group>) {
        let record = match readable(id, value) {
            Ok(record) => record,
            Err(detail) => {
                self.report.invalid += 1;
                return self.find(FindingKind::Record, None, format!("document {}: {detail}", hex(id)));
            }
        };
        self.report.bytes += record.doc.as_bytes().len() as u64;
        if let Some(validator) = &self.entry.options.validator
            && !validator.matches(record.doc).unwrap_or(false)
        {
            self.report.nonconforming += 1;
        }
        let id: Arc<[u8]> = id.into();
        self.live_revisions(&id, &record, revisions);
        self.expect_change(&id, record.sequence, &[ChangeKind::Insert, ChangeKind::Update]);
        match (record.position, self.entry.options.capped) {
            (Some(position), _) => {
                let key = natural_key(&keys::natural_prefix(self.entry.id), position);
                self.lookups.push(Lookup { what: What::Position(position), id: id.clone(), key });
            }
            (None, Some(_)) => {
                let detail =
                    format!("document {} has no position in the order of insertion", name_of(record.doc));
                self.find(FindingKind::InsertionOrder, None, detail);
            }
            (None, None) => {}
        }
        for at in 0..self.indexes.len() {
            self.expect_entries(at, &id, record.doc);
        }
    }

    pub(super) fn expect_change(&mut self, id: &Arc<[u8]>, sequence: u64, kinds: &'static [ChangeKind]) {
        let key = Key::Change(self.entry.id, sequence).bytes();
        self.lookups.push(Lookup { what: What::Change { sequence, kinds }, id: id.clone(), key });
    }

    fn expect_entries(&mut self, at: usize, id: &Arc<[u8]>, doc: Doc<'_>) {
        let checked = &mut self.indexes[at];
        let index = &checked.index;
        match index.keys_of(doc) {
            Ok(keys) => {
                checked.multikey |= keys.multikey;
                for (key, types) in keys.entries {
                    let (key, value) = match index.spec.unique {
                        true => (Key::UniqueEntry(index.id, &key).bytes(), unique_value(id, &types)),
                        false => (Key::Entry(index.id, &key, id).bytes(), types),
                    };
                    self.lookups.push(Lookup { what: What::Entry { at, value }, id: id.clone(), key });
                }
            }
            Err(error) => {
                let detail = format!("document {} cannot be indexed: {error}", name_of(doc));
                let at = checked.at;
                self.find(FindingKind::MissingEntry, Some(at), detail);
            }
        }
    }

    /// Looks up the collected keys, space by space.
    fn look_up(&mut self) -> Result<()> {
        let lookups = std::mem::take(&mut self.lookups);
        for space in [Space::Log, Space::Indexes, Space::Meta, Space::Revisions] {
            let chosen: Vec<&Lookup> = lookups.iter().filter(|lookup| lookup.what.space() == space).collect();
            let keys: Vec<&[u8]> = chosen.iter().map(|lookup| lookup.key.as_slice()).collect();
            let found = self.snapshot.get_many(space, &keys)?;
            for (lookup, found) in chosen.into_iter().zip(found) {
                self.judge(lookup, found);
            }
        }
        Ok(())
    }

    fn judge(&mut self, lookup: &Lookup, found: Option<Bytes>) {
        let id = || hex(&lookup.id);
        match &lookup.what {
            What::Change { sequence, kinds } => {
                let fault = match found.as_deref().map(|value| Change::parse(*sequence, value)) {
                    None => "is missing".to_owned(),
                    Some(Err(error)) => format!("cannot be parsed: {error}"),
                    Some(Ok(change)) if change.id != &*lookup.id => format!("is one of {}", hex(change.id)),
                    Some(Ok(change)) if !kinds.contains(&change.kind) => {
                        format!("is of kind {:?}", change.kind)
                    }
                    Some(Ok(_)) => {
                        self.confirmed_changes += 1;
                        return;
                    }
                };
                let detail = format!("the change {sequence} of document {} {fault}", id());
                self.find(FindingKind::MissingChange, None, detail);
            }
            What::Entry { at, value } => {
                let checked = &mut self.indexes[*at];
                let fault = match found {
                    Some(found) if &*found == value.as_slice() => {
                        checked.confirmed += 1;
                        return;
                    }
                    None => "has no entry",
                    Some(found) if is_anothers(&checked.index, &found, &lookup.id) => {
                        "has no entry: another document has the same key"
                    }
                    Some(_) => {
                        // The entry exists and belongs to its document, so it counts as confirmed.
                        checked.confirmed += 1;
                        "has an entry with wrong type bytes"
                    }
                };
                let at = checked.at;
                let key = keys::describe(Space::Indexes, &lookup.key);
                self.find(FindingKind::MissingEntry, Some(at), format!("document {} {fault} ({key})", id()));
            }
            What::Reference(blob) => match found {
                Some(_) => self.confirmed_references += 1,
                None => {
                    let detail = format!("document {} has no reference to its blob {blob}", id());
                    self.find(FindingKind::Attachment, None, detail);
                }
            },
            What::Blob(blob) => {
                if found.is_none() {
                    let detail = format!("the blob {blob} of document {} is missing", id());
                    self.find(FindingKind::Attachment, None, detail);
                }
            }
            What::DueBody(revision) => {
                if found.is_none() {
                    let detail =
                        format!("the body of revision {revision} of document {} never expires", id());
                    self.find(FindingKind::Revision, None, detail);
                }
            }
            What::Position(position) => {
                if found.as_deref() == Some(&*lookup.id) {
                    self.confirmed_positions += 1;
                } else {
                    let detail =
                        format!("document {} is not at position {position} of the order of insertion", id());
                    self.find(FindingKind::InsertionOrder, None, detail);
                }
            }
        }
    }

    /// The newest change: its sequence, its count of documents, and its count of tombstones.
    fn newest_change(&self) -> Result<Option<(u64, u64, Option<u64>)>> {
        let range = KeyRange::prefix(&self.prefix);
        let newest = self.snapshot.scan(Space::Log, range, Direction::Reverse).next().transpose()?;
        Ok(newest.and_then(|(key, value)| {
            let sequence = self.sequence_of(&key)?;
            Change::parse(sequence, &value).ok().map(|change| (sequence, change.count, change.deleted))
        }))
    }

    fn sequence_of(&self, key: &[u8]) -> Option<u64> {
        match read_number(key.get(self.prefix.len()..)?)? {
            (sequence, []) => Some(sequence),
            _ => None,
        }
    }

    /// Checks that every change belongs to a document or a tombstone, and that the newest has the right counts.
    fn changes(&mut self) -> Result<()> {
        let newest = self.newest_change()?;
        let (count, deleted) = newest.map_or((0, Some(0)), |(_, count, deleted)| (count, deleted));
        if let Some(deleted) = deleted.filter(|&deleted| deleted != self.report.tombstones) {
            let detail = format!(
                "there are {} tombstones, but the newest change counts {deleted}",
                self.report.tombstones
            );
            self.find(FindingKind::Count, None, detail);
        }
        if count != self.report.documents {
            let detail = format!(
                "there are {} documents, but the newest change counts {count}",
                self.report.documents
            );
            self.find(FindingKind::Count, None, detail);
        }
        let range = KeyRange::prefix(&self.prefix);
        self.report.changes = self.count(Space::Log, range.clone(), Part::Changes)?;
        // Each document confirmed a different change. If the numbers agree, the log holds no others.
        if self.report.changes == self.confirmed_changes {
            return Ok(());
        }
        for pair in self.snapshot.scan(Space::Log, range, Direction::Forward) {
            let (key, value) = pair?;
            let described = || keys::describe(Space::Log, &key);
            let Some(sequence) = self.sequence_of(&key) else {
                self.find(
                    FindingKind::StrayChange,
                    None,
                    format!("no change has such a key: {}", described()),
                );
                continue;
            };
            let belongs = match Change::parse(sequence, &value) {
                Ok(change) => self.latest_of(change.id, change.kind)? == Some(sequence),
                Err(_) => false,
            };
            if !belongs {
                let detail = format!("the {} is not the newest change of any document", described());
                self.find(FindingKind::StrayChange, None, detail);
            }
        }
        Ok(())
    }

    /// The sequence in a document's record or tombstone.
    fn latest_of(&self, id: &[u8], kind: ChangeKind) -> Result<Option<u64>> {
        if matches!(kind, ChangeKind::Delete | ChangeKind::Purge) {
            let value = self.snapshot.get(Space::Revisions, &Key::Tombstone(self.entry.id, id).bytes())?;
            return Ok(
                value.and_then(|value| Tombstone::parse(&value).ok().map(|tombstone| tombstone.sequence))
            );
        }
        let value = self.snapshot.get(Space::Records, &Key::Record(self.entry.id, id).bytes())?;
        Ok(value.and_then(|value| Record::parse(&value).ok().map(|record| record.sequence)))
    }

    /// Every entry of an index is one that its document has.
    fn index(&mut self, at: usize) -> Result<()> {
        let CheckedIndex { index, at, confirmed, .. } = &self.indexes[at];
        let (index, at, confirmed) = (index.clone(), *at, *confirmed);
        let range = KeyRange::prefix(&keys::index_prefix(index.id));
        let total = self.count(Space::Indexes, range.clone(), Part::Index(&index.spec.name))?;
        self.report.indexes[at].entries = total;
        if total == confirmed {
            return Ok(());
        }
        for pair in self.snapshot.scan(Space::Indexes, range, Direction::Forward) {
            let (key, value) = pair?;
            let parts = RawEntry::new(&index, &key, &value).and_then(|entry| entry.split(&index));
            let fault = match parts {
                Err(_) => Some("cannot be parsed".to_owned()),
                Ok((entry_key, id)) => {
                    let record =
                        self.snapshot.get(Space::Records, &Key::Record(self.entry.id, id).bytes())?;
                    match record.as_deref().map(|value| readable(id, value)) {
                        None => Some(format!("belongs to document {}, which does not exist", hex(id))),
                        Some(Ok(record))
                            if !index.keys_of(record.doc).is_ok_and(|k| k.contains(entry_key)) =>
                        {
                            Some(format!(
                                "belongs to document {}, which has no such key",
                                name_of(record.doc)
                            ))
                        }
                        // A document that cannot be parsed has been reported already.
                        Some(_) => None,
                    }
                }
            };
            if let Some(fault) = fault {
                let detail = format!("the {} {fault}", keys::describe(Space::Indexes, &key));
                self.find(FindingKind::StrayEntry, Some(at), detail);
            }
        }
        Ok(())
    }

    /// Every place in the capped order is that of its document.
    fn insertion_order(&mut self) -> Result<()> {
        let prefix = keys::natural_prefix(self.entry.id);
        let range = KeyRange::prefix(&prefix);
        let total = self.count(Space::Indexes, range.clone(), Part::InsertionOrder)?;
        if total == self.confirmed_positions {
            return Ok(());
        }
        for pair in self.snapshot.scan(Space::Indexes, range, Direction::Forward) {
            let (key, id) = pair?;
            let position = read_number(&key[prefix.len()..]).filter(|(_, rest)| rest.is_empty());
            let record = self.snapshot.get(Space::Records, &Key::Record(self.entry.id, &id).bytes())?;
            let own = record.and_then(|value| Record::parse(&value).ok()?.position);
            if own.is_none() || own != position.map(|(position, _)| position) {
                let detail = format!("the order of insertion has {} at a wrong position", hex(&id));
                self.find(FindingKind::InsertionOrder, None, detail);
            }
        }
        Ok(())
    }

    pub(super) fn count(&mut self, space: Space, range: KeyRange, part: Part<'_>) -> Result<u64> {
        let mut count = 0;
        let mut outcome = Ok(());
        self.snapshot.visit(space, range, &mut |_, _| {
            outcome = self.watch.step(self.namespace, part, count, None);
            count += 1;
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome.map(|()| count)
    }
}

/// Parses a record. Fails unless its document is valid and lies under the key of its `_id`.
fn readable<'v>(id: &[u8], value: &'v [u8]) -> std::result::Result<Record<'v>, String> {
    let record = Record::parse(value).map_err(|error| error.to_string())?;
    Doc::validate(record.doc.as_bytes()).map_err(|error| format!("its BSON is damaged: {error}"))?;
    if record.generation() == 0 {
        return Err("its revision has generation 0".to_owned());
    }
    match document_id(record.doc) {
        Ok(own) if own == id => Ok(record),
        Ok(_) => Err(format!("its key is not that of its _id ({})", name_of(record.doc))),
        Err(error) => Err(format!("it has no valid _id: {error}")),
    }
}

/// Whether the entry of a unique index belongs to another document.
fn is_anothers(index: &Index, value: &[u8], id: &[u8]) -> bool {
    index.spec.unique && split_unique_value(value).is_ok_and(|(other, _)| other != id)
}

/// A document's `_id` in words.
pub(super) fn name_of(doc: Doc<'_>) -> String {
    doc.get("_id").map(|id| diwan_query::display::Shown(id).to_string()).unwrap_or_default()
}

/// The key bytes of an `_id`, as they are.
pub(super) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
