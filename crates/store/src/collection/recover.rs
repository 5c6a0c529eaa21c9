//! The notes and settings of all collections, read in one pass when a store is opened. Their keys are adjacent, so one pass
//! costs far less than a look-up for each collection.

use super::sequence::Note;
use super::settings::read_setting;
use crate::error::{Error, Result};
use crate::keys::{self, CollectionId, Key, read_number};
use diwan_kv::{Direction, Engine, KeyRange, Snapshot, Space};
use diwan_value::ValueBuf;
use std::collections::{BTreeMap, HashMap};

/// The stored state of one collection.
#[derive(Default)]
pub(crate) struct Recovered {
    /// Its note of sizes and counts.
    pub(super) note: Option<Note>,
    /// Whether nothing was written after the note. If there is no note: whether nothing was ever written.
    pub(super) exact: bool,
    /// Its settings.
    pub(super) settings: BTreeMap<String, ValueBuf>,
}

impl Recovered {
    /// The state of a collection that has just been created.
    pub fn empty() -> Recovered {
        Recovered { exact: true, ..Recovered::default() }
    }

    /// The state of a collection that only its change log tells.
    pub fn from_log() -> Recovered {
        Recovered::default()
    }
}

impl Recovered {
    /// The state of a collection that another process has created: its settings; its log tells the rest.
    pub(crate) fn stored(engine: &dyn Engine, collection: CollectionId) -> Result<Recovered> {
        let settings = Recovered::read_settings(engine.snapshot().as_ref(), collection)?;
        Ok(Recovered { settings, ..Recovered::default() })
    }

    /// The settings of a collection.
    pub(super) fn read_settings(
        snapshot: &dyn Snapshot,
        collection: CollectionId,
    ) -> Result<BTreeMap<String, ValueBuf>> {
        let prefix = keys::settings_prefix(collection);
        let settings = snapshot.scan(Space::Meta, KeyRange::prefix(&prefix), Direction::Forward);
        settings
            .map(|pair| {
                let (key, value) = pair?;
                let read = key.get(prefix.len()..).and_then(|name| read_setting(name, &value));
                read.ok_or_else(|| Error::Damaged(keys::describe(Space::Meta, &key)))
            })
            .collect()
    }
}

/// The stored state of all collections.
pub(crate) struct Recovery {
    notes: HashMap<CollectionId, Note>,
    settings: HashMap<CollectionId, BTreeMap<String, ValueBuf>>,
    /// Whether the store was closed after its last write, so that the notes are exact.
    pub closed: bool,
}

impl Recovery {
    /// Reads the notes and settings of all collections.
    pub fn read(snapshot: &dyn Snapshot) -> Result<Recovery> {
        let closed = snapshot.get(Space::Meta, &Key::Closed.bytes())?.is_some();
        let mut recovery = Recovery { notes: HashMap::new(), settings: HashMap::new(), closed };
        let damaged = |key: &[u8]| Error::Damaged(keys::describe(Space::Meta, key));
        let prefix = keys::sizes_prefix();
        for pair in snapshot.scan(Space::Meta, KeyRange::prefix(prefix), Direction::Forward) {
            let (key, value) = pair?;
            let (collection, _) = collection_of(&key[prefix.len()..]).ok_or_else(|| damaged(&key))?;
            recovery.notes.insert(collection, Note::parse(&value)?);
        }
        let prefix = keys::all_settings_prefix();
        for pair in snapshot.scan(Space::Meta, KeyRange::prefix(prefix), Direction::Forward) {
            let (key, value) = pair?;
            let (collection, name) = collection_of(&key[prefix.len()..]).ok_or_else(|| damaged(&key))?;
            let (name, value) = read_setting(name, &value).ok_or_else(|| damaged(&key))?;
            recovery.settings.entry(collection).or_default().insert(name, value);
        }
        Ok(recovery)
    }

    /// The stored state of one collection.
    pub fn of(&self, collection: CollectionId) -> Recovered {
        Recovered {
            note: self.notes.get(&collection).copied(),
            exact: self.closed,
            settings: self.settings.get(&collection).cloned().unwrap_or_default(),
        }
    }
}

fn collection_of(key: &[u8]) -> Option<(CollectionId, &[u8])> {
    let (number, rest) = read_number(key)?;
    Some((CollectionId(u32::try_from(number).ok()?), rest))
}
