//! The catalog as the snapshot holds it, and what lies beside it in the same space.

use super::report::{CheckReport, Finding, FindingKind, Part};
use super::{Watch, damage};
use crate::catalog::CatalogEntry;
use crate::collection::{LocalDocument, Note, read_setting};
use crate::error::Result;
use crate::events;
use crate::keys::{self, CollectionId, Key, read_number};
use crate::retry;
use crate::store::read_format;
use diwan_kv::{Direction, KeyRange, Snapshot, Space};
use std::collections::{BTreeMap, BTreeSet};

/// The snapshot's catalog.
#[derive(Default)]
pub(super) struct Catalog {
    /// The collections by name, as `database.collection`.
    pub collections: BTreeMap<String, CatalogEntry>,
    /// Numbers of collections and indexes whose keys are still to be deleted.
    pub dropped: BTreeSet<u32>,
    /// Numbers of indexes of views, and of their collections.
    pub views: BTreeMap<u32, u32>,
    /// Numbers of the collections.
    collection_numbers: BTreeSet<u32>,
    /// Numbers of their indexes.
    index_numbers: BTreeSet<u32>,
    /// Whether every superseded body must have a key in the order of time.
    pub due_bodies_complete: bool,
}

impl Catalog {
    /// Reads it and checks every key of its space.
    pub fn read(snapshot: &dyn Snapshot, watch: &mut Watch<'_>, report: &mut CheckReport) -> Result<Catalog> {
        let mut reader = Reader {
            catalog: Catalog::default(),
            next: None,
            sizes: Vec::new(),
            with_blobs: BTreeSet::new(),
            beside: BTreeSet::new(),
            report,
        };
        if let Err(error) = reader.scan(snapshot, watch) {
            reader.find(FindingKind::Unreadable, damage(error)?);
        }
        reader.check_numbers();
        reader.check_owners();
        Ok(reader.catalog)
    }

    /// Whether a collection or view has this number, or had it until it was dropped.
    pub fn knows_collection(&self, id: u64) -> bool {
        self.is_dropped(id) || u32::try_from(id).is_ok_and(|id| self.collection_numbers.contains(&id))
    }

    /// The same of an index.
    pub fn knows_index(&self, id: u64) -> bool {
        let is_known = |id| self.views.contains_key(&id) || self.index_numbers.contains(&id);
        self.is_dropped(id) || u32::try_from(id).is_ok_and(is_known)
    }

    fn is_dropped(&self, id: u64) -> bool {
        u32::try_from(id).is_ok_and(|id| self.dropped.contains(&id))
    }
}

struct Reader<'a> {
    catalog: Catalog,
    /// The next free number.
    next: Option<u32>,
    sizes: Vec<u64>,
    /// Numbers of collections with keys of blobs.
    with_blobs: BTreeSet<u64>,
    /// Numbers of collections with local documents or settings.
    beside: BTreeSet<u64>,
    report: &'a mut CheckReport,
}

impl Reader<'_> {
    fn scan(&mut self, snapshot: &dyn Snapshot, watch: &mut Watch<'_>) -> Result<()> {
        for (at, pair) in snapshot.scan(Space::Meta, KeyRange::all(), Direction::Forward).enumerate() {
            watch.step("", Part::Catalog, at as u64, None)?;
            let (key, value) = pair?;
            let read = match *key {
                [b'f'] => read_format(&value).map(|next| self.next = Some(next)),
                [b'c', ..] => self.entry(&key, &value),
                [b'x', ref number @ ..] => self.number(&key, number).map(|number| {
                    self.catalog.dropped.extend(u32::try_from(number));
                }),
                [b's', ref number @ ..] => self.number(&key, number).and_then(|number| {
                    self.sizes.push(number);
                    Note::parse(&value).map(drop)
                }),
                [b'z'] => Ok(()),
                [b'e'] => {
                    self.catalog.due_bodies_complete = true;
                    Ok(())
                }
                [b'h'] => events::check_stored(None, &value),
                [b'w', ref scope @ ..] => events::check_stored(Some(scope), &value),
                [b'r', ..] => self.retry(&key, &value),
                [b'v', ref numbers @ ..] => self.views(&key, numbers),
                [kind @ (b'd' | b't'), ref rest @ ..] => self.beside(kind, &key, rest, &value),
                // Looked at with the collection that they name.
                [b'a' | b'l', ref rest @ ..] => match read_number(rest) {
                    Some((number, _)) => {
                        self.with_blobs.insert(number);
                        Ok(())
                    }
                    None => Err(crate::Error::Damaged(describe(&key))),
                },
                _ => {
                    self.find(FindingKind::Orphan, format!("unknown key {}", describe(&key)));
                    Ok(())
                }
            };
            if let Err(error) = read {
                let kind =
                    if key.first() == Some(&b'r') { FindingKind::RetryRecord } else { FindingKind::Catalog };
                self.find(kind, format!("{}: {error}", describe(&key)));
            }
        }
        Ok(())
    }

    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let damaged = || crate::Error::Damaged("the name".to_owned());
        let name = keys::catalog_name(key).ok_or_else(damaged)?;
        let entry = CatalogEntry::decode(value)?;
        if entry.options.view.is_some() {
            self.report.views += 1;
        } else {
            self.catalog.collection_numbers.insert(entry.id.0);
            self.catalog.index_numbers.extend(entry.indexes.iter().map(|index| index.id.0));
            self.catalog.collections.insert(name.to_string(), entry);
        }
        Ok(())
    }

    /// A local document or a setting.
    fn beside(&mut self, kind: u8, key: &[u8], rest: &[u8], value: &[u8]) -> Result<()> {
        let damaged = || crate::Error::Damaged(describe(key));
        let (number, name) = read_number(rest).ok_or_else(damaged)?;
        if kind == b'd' {
            LocalDocument::parse(value)?;
        } else {
            read_setting(name, value).ok_or_else(damaged)?;
        }
        std::str::from_utf8(name).map_err(|_| damaged())?;
        self.beside.insert(number);
        Ok(())
    }

    /// The header of an index of views.
    fn views(&mut self, key: &[u8], numbers: &[u8]) -> Result<()> {
        let damaged = || crate::Error::Damaged(describe(key));
        let (collection, index) = read_number(numbers).ok_or_else(damaged)?;
        let index = u32::try_from(self.number(key, index)?).map_err(|_| damaged())?;
        self.catalog.views.insert(index, u32::try_from(collection).map_err(|_| damaged())?);
        Ok(())
    }

    fn number(&self, key: &[u8], number: &[u8]) -> Result<u64> {
        match read_number(number) {
            Some((number, [])) if number <= u32::MAX.into() => Ok(number),
            _ => Err(crate::Error::Damaged(describe(key))),
        }
    }

    fn retry(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.report.retry_records += 1;
        retry::check_record(key, value)
    }

    /// Every number has one owner and is below the next one that will be given out.
    fn check_numbers(&mut self) {
        let mut owners: BTreeMap<u32, String> = BTreeMap::new();
        let mut findings = Vec::new();
        for (name, entry) in &self.catalog.collections {
            let id_index = entry.indexes.first().is_some_and(|index| index.spec.is_id_index());
            if !id_index {
                findings.push(format!("{name} has no index on _id"));
            }
            let numbers = std::iter::once(entry.id.0).chain(entry.indexes.iter().map(|index| index.id.0));
            for number in numbers {
                if let Some(other) = owners.insert(number, name.clone()) {
                    findings.push(format!("number {number} belongs to {other} and to {name}"));
                }
            }
        }
        for (&index, &collection) in &self.catalog.views {
            let name = format!("views of collection {collection}");
            if let Some(other) = owners.insert(index, name.clone()) {
                findings.push(format!("number {index} belongs to {other} and to {name}"));
            }
        }
        let newest = owners.keys().chain(&self.catalog.dropped).max().copied();
        match (self.next, newest) {
            (Some(next), Some(newest)) if next <= newest => {
                findings.push(format!(
                    "number {newest} is in use, but the format record says that {next} is free"
                ));
            }
            (None, Some(_)) => findings.push("there is no format record".to_owned()),
            _ => {}
        }
        for finding in findings {
            self.find(FindingKind::Catalog, finding);
        }
        for number in std::mem::take(&mut self.sizes) {
            if !self.catalog.knows_collection(number) {
                let key = Key::Size(CollectionId(number as u32)).bytes();
                self.find(FindingKind::Orphan, format!("{} belongs to no collection", describe(&key)));
            }
        }
    }

    fn check_owners(&mut self) {
        for number in std::mem::take(&mut self.beside) {
            if !self.catalog.knows_collection(number) {
                let detail = format!(
                    "there are local documents or settings of collection {number}, which does not exist"
                );
                self.find(FindingKind::Orphan, detail);
            }
        }
        let mut lost: Vec<u32> = self.catalog.views.values().copied().collect();
        lost.retain(|number| !self.catalog.knows_collection((*number).into()));
        for number in lost {
            let detail = format!("there are views of collection {number}, which does not exist");
            self.find(FindingKind::Orphan, detail);
        }
        for number in std::mem::take(&mut self.with_blobs) {
            if !self.catalog.knows_collection(number) {
                self.find(
                    FindingKind::Orphan,
                    format!("there are keys of blobs of collection {number}, which does not exist"),
                );
            }
        }
    }

    fn find(&mut self, kind: FindingKind, detail: String) {
        self.report.findings.add(Finding { kind, namespace: None, index: None, detail });
    }
}

fn describe(key: &[u8]) -> String {
    keys::describe(Space::Meta, key)
}
